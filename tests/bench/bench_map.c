/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * bench_map: samples per second from the queue into the tables, by 1 to N collectors, for three ways in which programs
 * touch memory. How the collectors scale is measured against the bare loop of bare.h, run by as many threads on the
 * same pages: what two cores of this machine can have of its memory at once is no matter of ours.
 *
 * Windows of all kinds come in turn, and the scaling is the median over the turns. A rate is per CPU time of its
 * thread. A window in which some thread did not have its CPU to itself is thrown away: threads that took turns on one
 * CPU would not have met.
 */
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "bare.h"
#include "bench_rig.h"
#include "parse.h"

#define POOL           (1U << 22) /* pages drawn ahead for each thread: far more lines than caches hold */
#define WINDOW_NS      (4 * NSEC_PER_MSEC)
#define TURNS_MIN      40 /* beside other work quartiles lie 7 % from the median: so many make 2 % of it */
#define LONGER         4  /* times as long at most, until there are so many */
#define TURNS_MAX      4096
#define SHARE_MIN      0.9 /* of the window that a thread must have been on its CPU, and at work with the others */
#define SCALING_OF     0.9
#define BATCH          1024
#define COLLECTORS_MAX 16

static const char usage[] = "Usage: bench_map [--gib=N] [--collectors=N] [--seconds=N] [--json]\n"
			    "\n"
			    "How many samples a second 1 to N collectors take from their queues into the\n"
			    "tables, and how that grows from one to two, beside a bare loop.\n"
			    "\n"
			    "  --gib=N         memory that is sampled, every page of it (1..256, default 16)\n"
			    "  --collectors=N  up to how many (1..16, default: as many as there are CPUs)\n"
			    "  --seconds=N     how long is measured (1..3600, default 10)\n"
			    "  --json          one JSON object instead of lines \"name value unit\"\n"
			    "  --help          this text\n";

enum pattern { UNIFORM, ZIPF, STREAMING, PATTERNS };

static const char *const pattern_name[] = { "uniform", "zipf", "streaming" };

struct runner {
	struct map *map;
	pthread_t thread;
	unsigned int shard;
	size_t at; /* in the pool */
	uint64_t samples, cpu_ns, begin_ns, end_ns;
	uint32_t *pool[PATTERNS];
};

/* What the threads do, once all of them are there. */
struct job {
	enum pattern pattern;
	bool is_bare, end;
	unsigned int threads;
};

struct map {
	struct rig rig;
	struct bare bare;
	unsigned int collectors;
	pthread_barrier_t begin, end;
	_Atomic bool is_realtime;   /* relaxed */
	_Atomic unsigned int ready; /* threads that are awake; relaxed: it carries nothing */
	struct job job;
	struct runner runner[COLLECTORS_MAX];
};

/* One batch through the queue: half a window's cost is not to be in the drawing. */
static void collect_batch(struct runner *r, const uint32_t *page)
{
	struct rig *rig = &r->map->rig;
	uint64_t now_ns = rig_now_ns(rig);

	for (size_t i = 0; i < BATCH; i++) {
		struct sample sample = rig_sample(page[i], now_ns);

		if (sample_queue_push(rig->queue[r->shard], &sample) < 0)
			abort();
	}
	while (collector_step(rig->collector[r->shard], &rig->config, now_ns, BATCH) != 0)
		;
}

static void run_window(struct runner *r, const struct job *job)
{
	const uint32_t *pool = r->pool[job->pattern];
	uint64_t cpu_ns, sum;

	/* The barrier's wake-ups are far apart. */
	atomic_fetch_add_explicit(&r->map->ready, 1, memory_order_relaxed);
	while (atomic_load_explicit(&r->map->ready, memory_order_relaxed) < job->threads)
		sched_yield();
	r->begin_ns = bench_now_ns();
	cpu_ns = bench_cpu_ns();
	r->samples = 0;
	do {
		if (job->is_bare) {
			sum = bare_update(&r->map->bare, pool + r->at, BATCH);
			bench_used(&sum);
		} else {
			collect_batch(r, pool + r->at);
		}
		r->at = (r->at + BATCH) % POOL;
		r->samples += BATCH;
	} while (bench_now_ns() - r->begin_ns < WINDOW_NS);
	r->cpu_ns = bench_cpu_ns() - cpu_ns;
	r->end_ns = bench_now_ns();
}

static void *run_thread(void *arg)
{
	struct runner *r = arg;
	struct map *map = r->map;

	if (bench_realtime())
		atomic_store_explicit(&map->is_realtime, true, memory_order_relaxed);
	rcu_thread_start();
	for (;;) {
		pthread_barrier_wait(&map->begin);
		if (map->job.end)
			break;
		if (r->shard < map->job.threads)
			run_window(r, &map->job);
		pthread_barrier_wait(&map->end);
	}
	rcu_thread_stop();
	return NULL;
}

/* Samples a second of all threads together; 0: some thread was disturbed. */
static double run_job(struct map *map, struct job job)
{
	uint64_t first_ns = 0, last_ns = UINT64_MAX, together_ns;
	double rate_sum = 0;
	bool disturbed = false;

	map->job = job;
	atomic_store_explicit(&map->ready, 0, memory_order_relaxed);
	pthread_barrier_wait(&map->begin);
	pthread_barrier_wait(&map->end);
	for (unsigned int i = 0; i < job.threads; i++) {
		const struct runner *r = &map->runner[i];

		first_ns = r->begin_ns > first_ns ? r->begin_ns : first_ns;
		last_ns = r->end_ns < last_ns ? r->end_ns : last_ns;
	}
	together_ns = last_ns > first_ns ? last_ns - first_ns : 0;
	for (unsigned int i = 0; i < job.threads; i++) {
		const struct runner *r = &map->runner[i];
		double wall_ns = (double)(r->end_ns - r->begin_ns);

		disturbed |= (double)r->cpu_ns < SHARE_MIN * wall_ns || (double)together_ns < SHARE_MIN * wall_ns;
		rate_sum += (double)r->samples * 1e9 / (double)r->cpu_ns;
	}
	return disturbed ? 0 : rate_sum;
}

/*
 * A rank of 1..n whose frequency falls with 1 / rank (Zipf's law with exponent 1, by its continuous form), and which
 * page has that rank: some odd multiple of it, so that the hot pages lie all over.
 */
static uint64_t draw_zipf(uint64_t *seed, uint64_t n)
{
	double u = (double)(bench_random(seed) >> 11) * 0x1p-53;
	uint64_t rank = (uint64_t)exp(u * log((double)n)) - 1;

	return (rank * 0x9e3779b97f4a7c15ULL) % n;
}

/* The pages of a shard that its thread will touch: @mine are its regions. */
static void make_pools(struct runner *r, const uint32_t *mine, uint64_t n)
{
	uint64_t seed = 88172645463325252ULL + r->shard * 2654435761U, pages = n * REGION_PAGES;

	for (int pattern = 0; pattern < PATTERNS; pattern++) {
		r->pool[pattern] = bare_alloc(POOL * sizeof(uint32_t));
		for (uint64_t i = 0; i < POOL; i++) {
			uint64_t at = pattern == UNIFORM ? bench_draw(&seed, pages)
				      : pattern == ZIPF  ? draw_zipf(&seed, pages)
							 : i % pages;

			r->pool[pattern][i] = mine[at / REGION_PAGES] * REGION_PAGES + (uint32_t)(at % REGION_PAGES);
		}
	}
}

static void init(struct map *map, uint64_t pages, unsigned int collectors)
{
	struct rig_options options = {
		.layout = RECORD_PRECISE, .pages = pages, .section_bytes = RIG_BLOCK_BYTES, .shards = collectors
	};
	uint64_t regions = pages / REGION_PAGES;
	uint32_t *mine = calloc(regions, sizeof(*mine));

	map->collectors = collectors;
	rig_init(&map->rig, &options);
	rig_fill(&map->rig);
	bare_init(&map->bare, pages);
	pthread_barrier_init(&map->begin, NULL, collectors + 1);
	pthread_barrier_init(&map->end, NULL, collectors + 1);
	for (unsigned int i = 0; i < collectors; i++) {
		struct runner *r = &map->runner[i];
		uint64_t n = 0;

		if (!mine)
			bench_die("not enough memory");
		*r = (struct runner){ .map = map, .shard = i };
		for (uint32_t region = 0; region < regions; region++)
			if (rig_shard(&map->rig, (uint64_t)region * REGION_PAGES) == i)
				mine[n++] = region;
		make_pools(r, mine, n);
		if (pthread_create(&r->thread, NULL, run_thread, r) != 0)
			bench_die("a thread can't be started");
	}
	free(mine);
}

static void done(struct map *map)
{
	map->job.end = true;
	pthread_barrier_wait(&map->begin);
	for (unsigned int i = 0; i < map->collectors; i++) {
		pthread_join(map->runner[i].thread, NULL);
		for (int pattern = 0; pattern < PATTERNS; pattern++)
			munmap(map->runner[i].pool[pattern], POOL * sizeof(uint32_t));
	}
	pthread_barrier_destroy(&map->begin);
	pthread_barrier_destroy(&map->end);
	bare_done(&map->bare);
	rig_done(&map->rig);
}

/* Values of undisturbed windows. */
struct series {
	size_t n;
	double value[TURNS_MAX];
};

static void add(struct series *series, double value)
{
	if (series->n < TURNS_MAX)
		series->value[series->n++] = value;
}

static struct series rate[PATTERNS][COLLECTORS_MAX + 1], scaling[PATTERNS], bare_rate[3], bare_scaling;
static uint64_t windows, disturbed;

static double measure(struct map *map, struct series *series, struct job job)
{
	double value = run_job(map, job);

	windows++;
	disturbed += value == 0;
	if (value > 0)
		add(series, value);
	return value;
}

/* All kinds of windows once. Two collectors stand between two runs of one, so that a slow change falls out. */
static void take_turn(struct map *map)
{
	double one, two;

	for (int pattern = 0; pattern < PATTERNS; pattern++) {
		one = measure(map, &rate[pattern][1], (struct job){ .pattern = pattern, .threads = 1 });
		for (unsigned int n = 2; n <= map->collectors; n++) {
			two = measure(map, &rate[pattern][n], (struct job){ .pattern = pattern, .threads = n });
			if (n == 2 && one > 0 && two > 0)
				add(&scaling[pattern], two / one);
		}
	}
	one = measure(map, &bare_rate[1], (struct job){ .is_bare = true, .threads = 1 });
	if (map->collectors < 2)
		return;
	two = measure(map, &bare_rate[2], (struct job){ .is_bare = true, .threads = 2 });
	if (one > 0 && two > 0)
		add(&bare_scaling, two / one);
}

static double median(struct series *series)
{
	return bench_median(series->value, series->n);
}

static void report(struct map *map)
{
	static char name[PATTERNS][COLLECTORS_MAX + 1][48];
	double bare;

	for (int pattern = 0; pattern < PATTERNS; pattern++)
		for (unsigned int n = 1; n <= map->collectors; n++) {
			snprintf(name[pattern][n], sizeof(name[pattern][n]), "map_%s_%u_samples_per_sec",
				 pattern_name[pattern], n);
			bench_put(name[pattern][n], median(&rate[pattern][n]), "samples/s");
		}
	bench_put("bare_1_updates_per_sec", median(&bare_rate[1]), "updates/s");
	if (map->collectors >= 2) {
		bench_put("bare_2_updates_per_sec", median(&bare_rate[2]), "updates/s");
		bare = median(&bare_scaling);
		bench_put("bare_2_scaling", bare, "ratio");
		bench_put_bar("collectors_2_scaling", median(&scaling[UNIFORM]), "ratio", BENCH_AT_LEAST,
			      SCALING_OF * bare);
		bench_put("collectors_2_scaling_zipf", median(&scaling[ZIPF]), "ratio");
		bench_put("collectors_2_scaling_streaming", median(&scaling[STREAMING]), "ratio");
	}
	bench_put("windows", (double)windows, "windows");
	bench_put("windows_disturbed", (double)disturbed, "windows");
	if (map->collectors >= 2 && (scaling[UNIFORM].n < TURNS_MIN || bare_scaling.n < TURNS_MIN))
		bench_die("too few undisturbed windows (%llu of %llu were disturbed): something else keeps the CPUs "
			  "busy",
			  (unsigned long long)disturbed, (unsigned long long)windows);
}

int main(int argc, char **argv)
{
	static struct map map;
	uint64_t gib = 16, seconds = 10, collectors = 0, end_ns, turn_ns;
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	bool json = false;
	const struct bench_option options[] = {
		{ .name = "gib", .number = &gib, .min = 1, .max = 256 },
		{ .name = "collectors", .number = &collectors, .min = 1, .max = COLLECTORS_MAX },
		{ .name = "seconds", .number = &seconds, .min = 1, .max = 3600 },
		{ .name = "json", .flag = &json },
	};

	bench_options(argc, argv, usage, options, sizeof(options) / sizeof(options[0]));
	if (collectors == 0)
		collectors = cpus < 1 ? 1 : cpus > COLLECTORS_MAX ? COLLECTORS_MAX : (uint64_t)cpus;
	rcu_thread_start();
	init(&map, (gib << 30) / PAGE_SIZE_BYTES, (unsigned int)collectors);
	rcu_thread_stop();
	/* On a busy machine longer, so that enough of the windows count; not for ever. */
	end_ns = bench_now_ns() + seconds * NSEC_PER_SEC;
	for (int turn = 0; turn < TURNS_MAX; turn++) {
		bool enough = collectors < 2 || (scaling[UNIFORM].n >= TURNS_MIN && bare_scaling.n >= TURNS_MIN);

		if (bench_now_ns() > end_ns + (enough ? 0 : (LONGER - 1) * seconds * NSEC_PER_SEC))
			break;
		turn_ns = bench_now_ns();
		take_turn(&map);
		turn_ns = bench_now_ns() - turn_ns;
		if (atomic_load_explicit(&map.is_realtime, memory_order_relaxed))
			bench_rest(turn_ns);
	}
	if (collectors >= 2 && (scaling[UNIFORM].n < TURNS_MIN || bare_scaling.n < TURNS_MIN)) {
		printf("skip: of %llu windows %llu were disturbed: something else keeps the CPUs busy\n",
		       (unsigned long long)windows, (unsigned long long)disturbed);
		return BENCH_EXIT_SKIPPED;
	}
	report(&map);
	done(&map);
	return bench_end(json);
}
