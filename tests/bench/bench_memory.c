/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * bench_memory: what the tables take for what was sampled, above what they take at the start, and what the idle daemon
 * takes. Each figure is the larger of our own count and the growth of the resident set as the kernel sees it
 * (proc_pid_smaps(5), Rss), in a process of its own; so what the allocator holds between is in it. Pages come in random
 * order, and the janitor has its turns, as in the daemon.
 */
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

#include "bench_rig.h"
#include "buffers.h"
#include "parse.h"

#define SECTION_BYTES (128ULL << 20)
#define TIB           (1ULL << 40)
#define MIB           (1ULL << 20)

#define SPARSE_CHUNKS   524288 /* all of 1 TiB */
#define UNIFORM_RECORDS 785000
#define DENSE_GIB       64

#define SPARSE_MAX_BYTES  (64.0 * MIB)
#define UNIFORM_MAX_BYTES (96.0 * MIB)
#define COMPACT_MAX_BYTES 6.0 /* a page */
#define PRECISE_MAX_BYTES 9.0
#define IDLE_MAX_BYTES    (16.0 * MIB)

#define BUFFERS_CPUS      768
#define BUFFERS_NODES_MAX 96 /* of a machine with so many CPUs, which are 8 to a node then */
#define BUFFERS_MAX_BYTES (256.0 * MIB)

/* Half a second at the published rate, the janitor's pause; longer where there are so many pages that it would take
 * minutes. */
#define JANITOR_SAMPLES 78500
#define JANITOR_DENSE   (1ULL << 20)

static const char help_text[] = "Usage: bench_memory [--gib=N] [--daemon=PATH] [--json]\n"
				"\n"
				"What the tables take for what was sampled, and what the idle daemon takes.\n"
				"\n"
				"  --gib=N        memory of which every page is sampled (1..256, default 64)\n"
				"  --daemon=PATH  the pghotd that idles; without it that line is left out\n"
				"  --json         one JSON object instead of lines \"name value unit\"\n"
				"  --help         this text\n";

/* What one scenario gives back. */
struct taken {
	uint64_t counted_bytes, resident_bytes, peak_resident_bytes;
	struct hotness_usage usage;
};

/* Sum of Rss of @pid, mappings of perf rings left out. */
static uint64_t resident_bytes(pid_t pid)
{
	char path[64], line[512];
	unsigned long long kb, sum = 0;
	bool is_ring = false;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/smaps", (int)pid);
	f = fopen(path, "re");
	if (!f)
		bench_die("%s can't be read", path);
	while (fgets(line, sizeof(line), f)) {
		/* The first line of each mapping begins with its addresses, the others with a capital letter. */
		if (line[0] < 'A' || line[0] > 'Z')
			is_ring = strstr(line, "[perf_event]") != NULL;
		else if (sscanf(line, "Rss: %llu kB", &kb) == 1 && !is_ring)
			sum += kb << 10;
	}
	fclose(f);
	return sum;
}

/* The tables alone: no topology is needed to fill them. */
struct tables {
	struct machine machine;
	struct owners *owners;
	struct hotness *hotness;
	struct stats *stats;
	struct stats_slot *slot;
	struct record_rule rule;
	uint32_t owner_slot;
	uint64_t now_ns, since_janitor, janitor_samples;
	uint64_t start_counted, start_resident, peak_resident;
};

static void tables_init(struct tables *t, enum record_layout layout, uint64_t janitor_samples)
{
	struct hotness_options options = {
		.layout = layout, .shards = 1, .memory_max_bytes = 16ULL << 30, .section_bytes = SECTION_BYTES
	};
	struct hotness_usage start;
	struct owner *owner;

	machine_new(&t->machine);
	machine_put(&t->machine, "proc/100/stat",
		    "100 (bench) S 1 1 1 0 -1 4194560 1 0 0 0 1 1 0 0 20 0 1 0 5 1000000 100 18446744073709551615 1 1 "
		    "0");
	t->owners = owners_new(&t->machine.root, 1);
	t->hotness = t->owners ? hotness_new(&options, t->owners) : NULL;
	t->stats = stats_new();
	t->slot = t->stats ? stats_slot_new(t->stats) : NULL;
	if (!t->hotness || !t->slot)
		bench_die("not enough memory");
	t->rule = (struct record_rule){ .layout = layout, .window_ms = 3000, .freq_threshold = 2 };
	t->now_ns = bench_now_ns();
	t->janitor_samples = janitor_samples;
	rcu_enter();
	if (owners_get(t->owners, RIG_PID, t->now_ns, &owner) < 0)
		bench_die("the made-up process can't be read");
	t->owner_slot = owner->slot;
	rcu_leave();
	hotness_usage(t->hotness, &start);
	t->start_counted = start.bytes;
	t->start_resident = resident_bytes(getpid());
}

static void janitor(struct tables *t)
{
	uint64_t resident;

	/* What waits to be freed is there now, and at no other time is there more. */
	resident = resident_bytes(getpid());
	if (resident > t->peak_resident)
		t->peak_resident = resident;
	hotness_janitor(t->hotness, t->now_ns, UINT64_MAX, t->slot);
	t->since_janitor = 0;
}

/* The clock stands still: nothing ages, however long it takes. */
static void access_page(struct tables *t, uint64_t virtual_page, uint64_t page)
{
	const struct hotness_place place = { .nid = 1, .is_lower = true, .target_nid = 0 };
	struct sample sample = rig_sample(virtual_page, t->now_ns);
	enum hotness_result result;

	sample.phys = RIG_SLOW_BYTES + page * PAGE_SIZE_BYTES;
	rcu_enter();
	result = hotness_access_page(t->hotness, 0, &t->rule, &sample, t->owner_slot, &place);
	rcu_leave();
	if (result == HOTNESS_NO_MEMORY)
		bench_die("not enough memory");
	if (++t->since_janitor >= t->janitor_samples)
		janitor(t);
}

static void tables_end(struct tables *t, struct taken *ret)
{
	janitor(t);
	hotness_usage(t->hotness, &ret->usage);
	ret->counted_bytes = ret->usage.bytes - t->start_counted;
	ret->resident_bytes = resident_bytes(getpid()) - t->start_resident;
	ret->peak_resident_bytes = t->peak_resident - t->start_resident;
	hotness_free(t->hotness);
	owners_free(t->owners);
	stats_free(t->stats);
	machine_free(&t->machine);
}

static void sparse(struct taken *ret, uint64_t gib)
{
	struct tables t = { 0 };

	(void)gib;
	tables_init(&t, RECORD_PRECISE, JANITOR_SAMPLES);
	for (uint64_t i = 0; i < SPARSE_CHUNKS; i++) {
		/* Each chunk once, since the factor is odd. */
		uint64_t page = i * 2654435761U % SPARSE_CHUNKS * REGION_PAGES + i * 211 % REGION_PAGES;

		access_page(&t, page, page);
	}
	tables_end(&t, ret);
	if (ret->usage.chunks != SPARSE_CHUNKS || ret->usage.records != SPARSE_CHUNKS ||
	    ret->usage.regions != SPARSE_CHUNKS)
		bench_die("sparse: the tables do not hold what they were given");
}

static void uniform(struct taken *ret, uint64_t gib)
{
	struct tables t = { 0 };
	struct hotness_usage tables = { 0 };
	uint64_t seed = 88172645463325252ULL;

	(void)gib;
	tables_init(&t, RECORD_PRECISE, JANITOR_SAMPLES);
	/* Some pages are drawn twice. */
	for (uint64_t i = 0; tables.records < UNIFORM_RECORDS; i++) {
		uint64_t page = bench_draw(&seed, TIB / PAGE_SIZE_BYTES);

		access_page(&t, page, page);
		hotness_usage(t.hotness, &tables);
	}
	tables_end(&t, ret);
}

/* Every page, in random order; where @scattered, a region's pages lie anywhere, as after a long time of 4 KiB faults.
 */
static void dense(struct taken *ret, uint64_t gib, enum record_layout layout, bool scattered)
{
	struct tables t = { 0 };
	uint64_t pages = (gib << 30) / PAGE_SIZE_BYTES;

	tables_init(&t, layout, JANITOR_DENSE);
	for (uint64_t i = 0; i < pages; i++) {
		/* All of them, if there is no common factor; the golden ratio's fraction, so that they spread evenly.
		 */
		uint64_t page = (uint64_t)((unsigned __int128)i * 10368889ULL % pages);

		access_page(&t, scattered ? (uint64_t)((unsigned __int128)page * 7368787ULL % pages) : page, page);
	}
	tables_end(&t, ret);
	if (ret->usage.records != pages)
		bench_die("dense: %llu of %llu records were kept", (unsigned long long)ret->usage.records,
			  (unsigned long long)pages);
}

static void dense_compact(struct taken *ret, uint64_t gib)
{
	dense(ret, gib, RECORD_COMPACT, false);
}

static void dense_precise(struct taken *ret, uint64_t gib)
{
	dense(ret, gib, RECORD_PRECISE, false);
}

static void scattered_compact(struct taken *ret, uint64_t gib)
{
	dense(ret, gib, RECORD_COMPACT, true);
}

/* In a process of its own, so that what one leaves behind is not seen as the next one's. */
static struct taken run(void (*scenario)(struct taken *ret, uint64_t gib), uint64_t gib)
{
	struct taken taken = { 0 };
	int fds[2], status;
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC) < 0)
		bench_die("no pipe");
	pid = fork();
	if (pid < 0)
		bench_die("no process");
	if (pid == 0) {
		rcu_thread_start();
		scenario(&taken, gib);
		rcu_thread_stop();
		_exit(write(fds[1], &taken, sizeof(taken)) == sizeof(taken) ? 0 : BENCH_EXIT_MISSED);
	}
	close(fds[1]);
	if (read(fds[0], &taken, sizeof(taken)) != sizeof(taken) || waitpid(pid, &status, 0) < 0 || status != 0)
		bench_die("a scenario failed");
	close(fds[0]);
	return taken;
}

static double larger(const struct taken *taken)
{
	return (double)(taken->counted_bytes > taken->resident_bytes ? taken->counted_bytes : taken->resident_bytes);
}

static void put_total(const char *name, const char *counted, const char *peak, const struct taken *taken, double max)
{
	bench_put_bar(name, larger(taken), "bytes", BENCH_AT_MOST, max);
	bench_put(counted, (double)taken->counted_bytes, "bytes");
	bench_put(peak, (double)taken->peak_resident_bytes, "bytes");
}

static void put_per_page(const char *name, const char *counted, const char *peak, const struct taken *taken, double max)
{
	double pages = (double)taken->usage.records;

	bench_put_bar(name, larger(taken) / pages, "bytes", max > 0 ? BENCH_AT_MOST : BENCH_NO_BAR, max);
	bench_put(counted, (double)taken->counted_bytes / pages, "bytes");
	bench_put(peak, (double)taken->peak_resident_bytes / pages, "bytes");
}

static bool exists(const char *dir, const char *name)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return access(path, F_OK) == 0;
}

/*
 * The real daemon with all of its threads on a recorded machine with two tiers, a second after its socket is there. It
 * observes, and has rings only if we may open events.
 */
static double idle_bytes(const char *daemon)
{
	const struct timespec step = { .tv_nsec = 20 * 1000000 };
	struct machine machine, run_dir;
	char conf[128];
	double bytes;
	pid_t pid;

	machine_load(&machine, "lab-6.12-hmat");
	machine_put(&machine, "proc/vmstat", "pgpromote_success 0\nnuma_pages_migrated 0");
	machine_put(&machine, "proc/sys/kernel/numa_balancing", "2");
	machine_put(&machine, "proc/sys/kernel/numa_balancing_promote_rate_limit_MBps", "0");
	machine_put(&machine, "sys/devices/system/cpu/online", "0");
	machine_new(&run_dir);
	machine_put(&run_dir, "conf", "mode = \"observe\";");
	snprintf(conf, sizeof(conf), "%s/conf", run_dir.dir);
	pid = fork();
	if (pid < 0)
		bench_die("no process");
	if (pid == 0) {
		int null = open("/dev/null", O_RDWR | O_CLOEXEC);

		dup2(null, STDIN_FILENO);
		dup2(null, STDOUT_FILENO);
		dup2(null, STDERR_FILENO);
		execl(daemon, daemon, "--foreground", "--root", machine.dir, "--run-dir", run_dir.dir, "-c", conf,
		      (char *)NULL);
		_exit(127);
	}
	for (int i = 0; i < 1000 && !exists(run_dir.dir, "bus") && waitpid(pid, NULL, WNOHANG) == 0; i++)
		nanosleep(&step, NULL);
	if (!exists(run_dir.dir, "bus"))
		bench_die("%s does not start", daemon);
	for (int i = 0; i < 50; i++)
		nanosleep(&step, NULL);
	bytes = (double)resident_bytes(pid);
	kill(pid, SIGTERM);
	waitpid(pid, NULL, 0);
	machine_free(&machine);
	machine_free(&run_dir);
	return bytes;
}

/*
 * Rings of all CPUs and queues from each node's reader to each of 24 collectors (one for 32 CPUs), as the daemon makes
 * them with the default options, whatever the number of nodes: the most of it. The kernel's page of each ring is in it.
 */
static double buffers_bytes(size_t cpus)
{
	const size_t collectors = (cpus + 31) / 32;
	double most = 0;

	for (size_t nodes = 1; nodes <= BUFFERS_NODES_MAX; nodes++) {
		size_t queues = nodes * collectors;
		double bytes = (double)cpus * (double)(buffers_ring_bytes(BUFFERS_RING_KIB, cpus) + PAGE_SIZE_BYTES) +
			       (double)queues * (double)buffers_queue_samples(BUFFERS_QUEUE_SAMPLES, queues) *
				       sizeof(struct sample);

		most = bytes > most ? bytes : most;
	}
	return most;
}

int main(int argc, char **argv)
{
	const char *daemon = NULL;
	uint64_t gib = DENSE_GIB;
	struct taken taken;
	bool json = false;
	const struct bench_option options[] = {
		{ .name = "gib", .number = &gib, .min = 1, .max = 256 },
		{ .name = "daemon", .text = &daemon },
		{ .name = "json", .flag = &json },
	};

	bench_options(argc, argv, help_text, options, sizeof(options) / sizeof(options[0]));
	if (daemon)
		bench_put_bar("idle_rss_bytes", idle_bytes(daemon), "bytes", BENCH_AT_MOST, IDLE_MAX_BYTES);
	bench_put_bar("buffers_768_cpus_bytes", buffers_bytes(BUFFERS_CPUS), "bytes", BENCH_AT_MOST, BUFFERS_MAX_BYTES);
	bench_put("buffers_bytes_per_cpu", buffers_bytes(BUFFERS_CPUS) / BUFFERS_CPUS, "bytes");
	taken = run(sparse, gib);
	put_total("map_bytes_sparse", "map_bytes_sparse_counted", "map_bytes_sparse_peak", &taken, SPARSE_MAX_BYTES);
	taken = run(uniform, gib);
	put_total("map_bytes_uniform", "map_bytes_uniform_counted", "map_bytes_uniform_peak", &taken,
		  UNIFORM_MAX_BYTES);
	taken = run(dense_compact, gib);
	put_per_page("map_bytes_per_page_compact", "map_bytes_per_page_compact_counted",
		     "map_bytes_per_page_compact_peak", &taken, COMPACT_MAX_BYTES);
	taken = run(dense_precise, gib);
	put_per_page("map_bytes_per_page_precise", "map_bytes_per_page_precise_counted",
		     "map_bytes_per_page_precise_peak", &taken, PRECISE_MAX_BYTES);
	taken = run(scattered_compact, gib > 8 ? 8 : gib);
	put_per_page("map_bytes_per_page_compact_scattered", "map_bytes_per_page_compact_scattered_counted",
		     "map_bytes_per_page_compact_scattered_peak", &taken, 0);
	return bench_end(json);
}
