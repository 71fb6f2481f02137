/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * bench_scan: what a migrator's pass over the tables costs by how much there is, with the same few sections marked: 64
 * sections, and 65,536 (8 TiB in blocks of 128 MiB), each with records in it. A marked section has 128 ready records,
 * two in each of its 2 MiB: at the published rate of 157,000 samples/s a pass each 100 ms finds 15,700 samples, or 245
 * in each of 64 sections. The same with a single ready record in each is shown beside it, without a bar: then what a
 * pass costs is to find a section in memory, and the few lie closer together than the many. And that a pass makes no
 * system call: the kernel sends a signal for each while a byte in our memory says so (PR_SET_SYSCALL_USER_DISPATCH, see
 * the kernel's Documentation/admin-guide/syscall-user-dispatch.rst).
 */
#include <signal.h>
#include <sys/prctl.h>

#include "bench_rig.h"
#include "parse.h"

#ifndef PR_SET_SYSCALL_USER_DISPATCH
#define PR_SET_SYSCALL_USER_DISPATCH 59
#define PR_SYS_DISPATCH_ON           1
#endif

#define SECTION_BYTES (128ULL << 20)
#define SECTION_PAGES (SECTION_BYTES / PAGE_SIZE_BYTES)
#define FEW           64
#define MANY          65536
#define PASSES        16         /* to a window */
#define READY         128        /* records in a marked section */
#define COLD_BYTES    (8U << 20) /* more than a core's own caches and TLB reach */
#define WINDOWS_MIN   15
#define LONGER        4 /* times as long at most, while quieter windows come */
#define TABLES_MAX    3
#define RATIO_MAX     1.3

static const char usage[] = "Usage: bench_scan [--seconds=N] [--json]\n"
			    "\n"
			    "What a pass costs with a few marked sections among few and among many.\n"
			    "\n"
			    "  --seconds=N  how long is measured (1..3600, default 6)\n"
			    "  --json       one JSON object instead of lines \"name value unit\"\n"
			    "  --help       this text\n";

struct scan {
	struct rig rig;
	struct topology *topology;
	uint64_t sections, turn;
	size_t shown;
};

static unsigned char cold[COLD_BYTES];

static volatile char selector; /* SYSCALL_DISPATCH_FILTER_BLOCK is 1 */
static volatile sig_atomic_t system_calls;

/* The call is not made, the scan goes on; that it was tried is what we want to know. */
static void note_system_call(int number)
{
	(void)number;
	selector = 0;
	system_calls++;
}

static enum hotness_verdict take(void *ctx, const struct hotness_candidate *candidate)
{
	struct scan *scan = ctx;

	(void)candidate;
	scan->shown++;
	return HOTNESS_TAKE;
}

/*
 * A migrator has slept since its last pass, and other CPUs have written what it looks at: its caches know nothing of
 * it.
 */
static void forget(void)
{
	for (size_t i = 0; i < COLD_BYTES; i += 64)
		cold[i]++;
	bench_used(cold);
}

static void collect(struct scan *scan, const struct sample *samples, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (sample_queue_push(scan->rig.queue[0], &samples[i]) < 0)
			abort();
	while (collector_step(scan->rig.collector[0], &scan->rig.config, samples->time_ns, n) != 0)
		;
}

/* Two accesses to each of @records pages of a section, so that they are ready. */
static void heat(struct scan *scan, uint64_t section, unsigned int records, uint64_t now_ns)
{
	const uint64_t chunks = SECTION_PAGES / REGION_PAGES;
	struct sample samples[2 * READY];

	for (unsigned int i = 0; i < records; i++)
		samples[2 * i] = samples[2 * i + 1] =
			rig_sample(section * SECTION_PAGES + i % chunks * REGION_PAGES + i * 97 % REGION_PAGES, now_ns);
	collect(scan, samples, 2 * records);
}

/* Those that get marked: 64 of them, spread over all. */
static uint64_t marked_section(const struct scan *scan, uint64_t i)
{
	return i % FEW * (scan->sections / FEW) + (scan->sections > FEW ? i % FEW * 7 : 0);
}

/* A record in each section. */
static void init(struct scan *scan, uint64_t sections)
{
	struct rig_options options = {
		.layout = RECORD_PRECISE, .pages = sections * SECTION_PAGES, .section_bytes = SECTION_BYTES, .shards = 1
	};
	uint64_t now_ns = bench_now_ns();

	rig_init(&scan->rig, &options);
	scan->topology = topology_store_get(scan->rig.topology);
	scan->sections = sections;
	for (uint64_t section = 0; section < sections; section++) {
		struct sample sample = rig_sample(section * SECTION_PAGES, now_ns);

		collect(scan, &sample, 1);
	}
}

static void done(struct scan *scan)
{
	topology_unref(scan->topology);
	rig_done(&scan->rig);
}

/* ns of one pass with @n marked sections, not the same ones each time, and @records ready ones in each. */
static double pass(struct scan *scan, unsigned int n, unsigned int records)
{
	struct hotness_visitor visitor = { .decide = take, .ctx = scan };
	uint64_t now_ns = bench_now_ns(), begin_ns;
	struct hotness_scan_result result;

	for (unsigned int i = 0; i < n; i++)
		heat(scan, marked_section(scan, scan->turn++), records, now_ns);
	scan->shown = 0;
	forget();
	begin_ns = bench_cpu_ns();
	selector = 1;
	rcu_enter();
	hotness_scan(scan->rig.hotness, scan->topology, 1, 0, 1, &visitor, &result);
	rcu_leave();
	selector = 0;
	begin_ns = bench_cpu_ns() - begin_ns;
	if (scan->shown != n * records)
		bench_die("%u records were ready, %zu were found", n * records, scan->shown);
	return (double)begin_ns;
}

/* The usual pass of a window: a median, since one interrupt would spoil a mean. */
static double window(struct scan *scan, unsigned int n, unsigned int records)
{
	double ns[PASSES];

	for (int i = 0; i < PASSES; i++)
		ns[i] = pass(scan, n, records);
	return bench_median(ns, PASSES);
}

/* One comparison: so many marked sections with so many ready records each. */
static struct comparison {
	unsigned int n, records;
	bool has_bar;
	const char *few_name, *many_name, *ratio_name;
	double few, many; /* ns of the best window */
} comparisons[] = {
	{ .n = 1,
	  .records = READY,
	  .has_bar = true,
	  .few_name = "scan_1_of_64_ns",
	  .many_name = "scan_1_of_65536_ns",
	  .ratio_name = "scan_1_of_many_ratio" },
	{ .n = 8,
	  .records = READY,
	  .has_bar = true,
	  .few_name = "scan_8_of_64_ns",
	  .many_name = "scan_8_of_65536_ns",
	  .ratio_name = "scan_8_of_many_ratio" },
	{ .n = 64,
	  .records = READY,
	  .has_bar = true,
	  .few_name = "scan_64_of_64_ns",
	  .many_name = "scan_64_of_65536_ns",
	  .ratio_name = "scan_64_of_many_ratio" },
	{ .n = 64,
	  .records = 1,
	  .few_name = "scan_64_lone_of_64_ns",
	  .many_name = "scan_64_lone_of_65536_ns",
	  .ratio_name = "scan_64_lone_of_many_ratio" },
};
#define COMPARISONS (sizeof(comparisons) / sizeof(comparisons[0]))

static double idle_ns; /* of a pass with none marked */
static uint64_t windows;

/* Whether it fell by a hundredth. */
static bool least(double *least_ns, double took_ns)
{
	bool fell = *least_ns == 0 || took_ns < *least_ns * 0.99;

	if (*least_ns == 0 || took_ns < *least_ns)
		*least_ns = took_ns;
	return fell;
}

/*
 * What others do to the caches makes a pass longer, and the one over many the most, since it finds less in them; never
 * shorter. So the quietest windows are compared, and it goes on until none quieter has come for as long as before.
 * The worst ratio of those with a bar.
 */
static double measure(struct scan *few, struct scan *many, uint64_t seconds)
{
	uint64_t begin_ns, fell_ns, now_ns, turn_ns;
	bool is_realtime = bench_realtime(), fell;
	double worst = 0;
	size_t n = 0;

	/* All that is marked later is made here. */
	for (size_t i = 0; i < COMPARISONS; i++) {
		comparisons[i].few = comparisons[i].many = 0;
		window(few, comparisons[i].n, comparisons[i].records);
		window(many, comparisons[i].n, comparisons[i].records);
	}
	idle_ns = 0;
	begin_ns = fell_ns = now_ns = bench_now_ns();
	while (n < WINDOWS_MIN || now_ns - begin_ns < seconds * NSEC_PER_SEC ||
	       (now_ns - fell_ns < fell_ns - begin_ns && now_ns - begin_ns < LONGER * seconds * NSEC_PER_SEC)) {
		turn_ns = now_ns;
		fell = false;
		for (size_t i = 0; i < COMPARISONS; i++) {
			struct comparison *c = &comparisons[i];

			fell |= least(&c->few, window(few, c->n, c->records)) && c->has_bar;
			fell |= least(&c->many, window(many, c->n, c->records)) && c->has_bar;
		}
		least(&idle_ns, window(many, 0, 0));
		n++;
		now_ns = bench_now_ns();
		if (fell)
			fell_ns = now_ns;
		if (is_realtime) {
			bench_rest(now_ns - turn_ns);
			now_ns = bench_now_ns();
		}
	}
	windows += n;
	for (size_t i = 0; i < COMPARISONS; i++) {
		double ratio = comparisons[i].many / comparisons[i].few;

		if (comparisons[i].has_bar && ratio > worst)
			worst = ratio;
	}
	return worst;
}

/*
 * Where tables lie in memory makes a twelfth of what a pass costs, once in fifty runs a third, for one of the two
 * alone. So a ratio that is missed has to be missed with others, which lie elsewhere as these are still there.
 */
static void run(uint64_t seconds)
{
	static struct scan few[TABLES_MAX], many[TABLES_MAX];
	double worst = 0;
	size_t tables = 0;

	while (tables == 0 || (tables < TABLES_MAX && worst > RATIO_MAX)) {
		init(&few[tables], FEW);
		init(&many[tables], MANY);
		worst = measure(&few[tables], &many[tables], seconds);
		tables++;
	}
	for (size_t i = 0; i < COMPARISONS; i++) {
		const struct comparison *c = &comparisons[i];

		bench_put(c->few_name, c->few, "ns");
		bench_put(c->many_name, c->many, "ns");
		bench_put(c->ratio_name, c->many / c->few, "ratio");
	}
	bench_put("scan_idle_ns", idle_ns, "ns");
	bench_put_bar("scan_few_of_many_ratio", worst, "ratio", BENCH_AT_MOST, RATIO_MAX);
	bench_put("windows", (double)windows, "windows");
	bench_put("tables", (double)tables, "tables");
	while (tables-- > 0) {
		done(&few[tables]);
		done(&many[tables]);
	}
}

int main(int argc, char **argv)
{
	uint64_t seconds = 6;
	bool json = false, counted;
	const struct bench_option options[] = {
		{ .name = "seconds", .number = &seconds, .min = 1, .max = 3600 },
		{ .name = "json", .flag = &json },
	};

	bench_options(argc, argv, usage, options, sizeof(options) / sizeof(options[0]));
	rcu_thread_start();
	signal(SIGSYS, note_system_call);
	counted = prctl(PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_ON, 0, 0, &selector) == 0;
	if (counted) {
		/* It has to see one for its silence to mean something. */
		selector = 1;
		(void)getppid();
		selector = 0;
		if (system_calls != 1)
			bench_die("the kernel lets a system call pass that it was told to report");
		system_calls = 0;
	}
	run(seconds);
	if (counted)
		bench_put_bar("scan_system_calls", (double)system_calls, "calls", BENCH_AT_MOST, 0);
	else
		fprintf(stderr,
			"bench_scan: this kernel can't report system calls (it needs 5.11), none were counted\n");
	rcu_thread_stop();
	return bench_end(json);
}
