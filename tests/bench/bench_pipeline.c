/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * bench_pipeline: samples per second of CPU time from a perf record to the hotness tables, on one core: decode, queue,
 * collector, regions, section map. Beside it, in the same run, a bare loop that touches as many random cache lines of
 * tables of the same sizes: what the machine's memory alone allows. All pages have been sampled before the clock
 * starts, as in a daemon that has run for a while.
 */
#include <errno.h>
#include <getopt.h>
#include <linux/perf_event.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "clock.h"
#include "collector.h"
#include "config.h"
#include "decode.h"
#include "hotness.h"
#include "owners.h"
#include "parse.h"
#include "rcu.h"
#include "sample.h"
#include "sample_queue.h"
#include "stats.h"
#include "topology.h"

#include "../unit/machine.h"

#define PID         100
#define ADDR        0x7f0000000000ULL
#define BLOCK_BYTES (2ULL << 30)
#define BATCH       64
#define SAMPLE_TYPE                                                                                 \
	(PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_ADDR | PERF_SAMPLE_CPU | \
	 PERF_SAMPLE_DATA_SRC | PERF_SAMPLE_PHYS_ADDR | PERF_SAMPLE_DATA_PAGE_SIZE)

static const char usage[] = "Usage: bench_pipeline [--gib=N] [--samples=N] [--json]\n"
			    "\n"
			    "How many samples a second one core takes from a perf record into the tables,\n"
			    "beside a bare loop that touches as many random cache lines.\n"
			    "\n"
			    "  --gib=N      memory that is sampled, every page of it (1..64, default 8)\n"
			    "  --samples=N  how many are timed (1000..1000000000, default 5000000)\n"
			    "  --json       one JSON object instead of lines \"name value unit\"\n"
			    "  --help       this text\n";

/* A sample as the kernel writes it with SAMPLE_TYPE. */
struct record {
	struct perf_event_header header;
	uint64_t ip;
	uint32_t pid, tid;
	uint64_t time_ns, addr;
	uint32_t cpu, reserved;
	uint64_t data_src, phys_addr, data_page_bytes;
};

struct bench {
	uint64_t pages, n_samples, seed;
	struct machine machine;
	struct topology_store *topology;
	struct owners *owners;
	struct hotness *hotness;
	struct sample_queue *queue;
	struct collector *collector;
	struct stats *stats;
	struct stats_slot *slot;
	struct config config;
	struct record records[BATCH];
};

static uint64_t draw(struct bench *b)
{
	b->seed ^= b->seed << 13;
	b->seed ^= b->seed >> 7;
	b->seed ^= b->seed << 17;
	return (uint64_t)(((unsigned __int128)b->seed * b->pages) >> 64);
}

static void put_machine(struct bench *b)
{
	struct machine *m = &b->machine;
	uint64_t blocks = (b->pages * PAGE_SIZE_BYTES + BLOCK_BYTES - 1) / BLOCK_BYTES;

	machine_new(m);
	machine_put(m, "sys/devices/system/node/online", "0-1");
	machine_put(m, "sys/devices/system/node/has_cpu", "0");
	machine_put(m, "sys/devices/system/node/has_memory", "0-1");
	machine_put(m, "sys/devices/system/memory/block_size_bytes", "%llx", BLOCK_BYTES);
	for (int nid = 0; nid < 2; nid++) {
		char path[128];

		snprintf(path, sizeof(path), "sys/devices/system/node/node%d/meminfo", nid);
		machine_put(m, path, "Node %d MemTotal:       %llu kB", nid, BLOCK_BYTES >> 10);
		snprintf(path, sizeof(path), "sys/devices/system/node/node%d/distance", nid);
		machine_put(m, path, nid ? "20 10" : "10 20");
		snprintf(path, sizeof(path), "sys/devices/system/node/node%d/cpulist", nid);
		machine_put(m, path, nid ? "" : "0-1");
	}
	machine_block(m, 0, 0, "online");
	for (uint64_t block = 1; block <= blocks; block++)
		machine_block(m, block, 1, "online");
	machine_put(m, "proc/100/stat",
		    "100 (bench) S 1 1 1 0 -1 4194560 1 0 0 0 1 1 0 0 20 0 1 0 5 1000000 100 18446744073709551615 1 1 "
		    "0");
}

static int setup(struct bench *b)
{
	struct topology_options tiers = { .tiers = { "0", "1" }, .n_tiers = 2, .target_nid = -1 };
	struct hotness_options options = {
		.layout = RECORD_PRECISE,
		.shards = 1,
		.memory_max_bytes = 16ULL << 30,
		.section_bytes = BLOCK_BYTES,
	};
	struct collector_params params;
	struct topology *topology;
	char error[256] = "";

	put_machine(b);
	if (topology_read(&b->machine.root, &tiers, &topology, error, sizeof(error)) < 0) {
		fprintf(stderr, "bench_pipeline: the made-up machine can't be read: %s\n", error);
		return -EINVAL;
	}
	b->topology = topology_store_new(topology);
	b->owners = owners_new(&b->machine.root, 1);
	b->hotness = b->owners ? hotness_new(&options, b->owners) : NULL;
	b->queue = sample_queue_new(4096);
	b->stats = stats_new();
	b->slot = b->stats ? stats_slot_new(b->stats) : NULL;
	params = (struct collector_params){ .hotness = b->hotness,
					    .owners = b->owners,
					    .topology = b->topology,
					    .stats = b->slot,
					    .queues = &b->queue,
					    .n_queues = 1 };
	b->collector = collector_new(&params);
	b->config.promote_freq_window_ms = 5000;
	b->config.promote_freq_threshold = 2;
	return b->topology && b->hotness && b->queue && b->slot && b->collector ? 0 : -ENOMEM;
}

static void teardown(struct bench *b)
{
	collector_free(b->collector);
	hotness_free(b->hotness);
	owners_free(b->owners);
	topology_store_free(b->topology);
	sample_queue_free(b->queue);
	stats_free(b->stats);
	machine_free(&b->machine);
}

/* The kernel's part: it writes the records, and the timed loop reads them from the cache, as from a ring. */
static void write_record(struct record *record, uint64_t page, uint64_t now_ns)
{
	*record = (struct record){
		.header = { .type = PERF_RECORD_SAMPLE, .misc = PERF_RECORD_MISC_USER, .size = sizeof(*record) },
		.pid = PID,
		.tid = PID,
		.time_ns = now_ns,
		.addr = ADDR + page * PAGE_SIZE_BYTES,
		.phys_addr = BLOCK_BYTES + page * PAGE_SIZE_BYTES,
		.data_page_bytes = PAGE_SIZE_BYTES,
	};
}

/* One batch from records to the tables. */
static void take_batch(struct bench *b, size_t n, uint64_t now_ns)
{
	for (size_t i = 0; i < n; i++) {
		struct decode_sample decoded;
		struct sample sample;

		if (decode_sample(SAMPLE_TYPE, &b->records[i].header, &decoded) < 0)
			abort();
		sample = (struct sample){
			.time_ns = decoded.time_ns,
			.addr = decoded.addr,
			.phys = decoded.phys_addr,
			.pid = decoded.pid,
			.tid = decoded.tid,
			.cpu = (uint16_t)decoded.cpu,
			.page_shift = (uint8_t)__builtin_ctzll(decoded.data_page_bytes),
			.source = SAMPLE_SOURCE_IBS,
		};
		/* The queue of its shard; there is one. */
		if (hotness_shard(sample.pid, sample.addr, 1) != 0 || sample_queue_push(b->queue, &sample) < 0)
			abort();
	}
	collector_step(b->collector, &b->config, now_ns, n);
}

/* Time of this thread on a CPU, so that a busy machine changes little: in user mode, or all. */
static double cpu_ns(bool all)
{
	struct rusage used;

	getrusage(RUSAGE_THREAD, &used);
	return (double)used.ru_utime.tv_sec * 1e9 + (double)used.ru_utime.tv_usec * 1e3 +
	       (all ? (double)used.ru_stime.tv_sec * 1e9 + (double)used.ru_stime.tv_usec * 1e3 : 0);
}

struct result {
	double pipeline_per_sec, bare_per_sec, user_ns;
	uint64_t table_bytes;
};

static int run_pipeline(struct bench *b, struct result *ret)
{
	struct hotness_usage tables;
	double user_ns, all_ns;

	for (uint64_t page = 0; page < b->pages; page += BATCH) {
		uint64_t now_ns = clock_now_ns(&clock_monotonic);

		for (uint64_t i = 0; i < BATCH; i++)
			write_record(&b->records[i], page + i, now_ns);
		take_batch(b, BATCH, now_ns);
	}
	hotness_usage(b->hotness, &tables);
	if (tables.records != b->pages) {
		fprintf(stderr, "bench_pipeline: not enough memory for the tables\n");
		return -ENOMEM;
	}
	/* Chunks that were outgrown are free from here on. */
	hotness_janitor(b->hotness, clock_now_ns(&clock_monotonic), UINT64_MAX, b->slot);
	hotness_usage(b->hotness, &tables);
	ret->table_bytes = tables.bytes;
	user_ns = cpu_ns(false);
	all_ns = cpu_ns(true);
	for (uint64_t done = 0; done < b->n_samples; done += BATCH) {
		uint64_t now_ns = clock_now_ns(&clock_monotonic);

		for (size_t i = 0; i < BATCH; i++)
			write_record(&b->records[i], draw(b), now_ns);
		take_batch(b, BATCH, now_ns);
	}
	user_ns = cpu_ns(false) - user_ns;
	all_ns = cpu_ns(true) - all_ns;
	ret->pipeline_per_sec = (double)b->n_samples * 1e9 / all_ns;
	ret->user_ns = user_ns / (double)b->n_samples;
	if (stats_sum(b->stats, STAT_RECORDED) < b->pages + b->n_samples) {
		fprintf(stderr, "bench_pipeline: samples were lost\n");
		return -EIO;
	}
	return 0;
}

/*
 * The lines that a sample touches in the tables: of the hash, the region, its bitmap of pages, the section's chunk
 * words, the words themselves; two of them are written.
 */
static int run_bare(struct bench *b, struct result *ret)
{
	uint64_t regions = b->pages / REGION_PAGES, sum = 0;
	uint32_t *hash = calloc(regions * 2, sizeof(*hash));
	uint64_t(*region)[8] = calloc(regions, 64);
	uint64_t(*bitmap)[8] = calloc(regions, 64);
	uint64_t *chunk = calloc(regions, sizeof(*chunk));
	uint64_t *word = calloc(b->pages, sizeof(*word));
	int r = -ENOMEM;
	double all_ns;

	if (!hash || !region || !bitmap || !chunk || !word)
		goto out;
	/* Memory of its own behind every page. */
	memset(hash, 1, regions * 2 * sizeof(*hash));
	memset(region, 1, regions * 64);
	memset(bitmap, 1, regions * 64);
	memset(chunk, 1, regions * sizeof(*chunk));
	memset(word, 1, b->pages * sizeof(*word));
	all_ns = cpu_ns(true);
	for (uint64_t done = 0; done < b->n_samples; done++) {
		uint64_t page = draw(b), at = page / REGION_PAGES;

		sum += hash[(at * 2654435761U) % (regions * 2)];
		region[at][1]++;
		sum += bitmap[at][page / 64 % 8];
		sum += chunk[at];
		word[page]++;
	}
	all_ns = cpu_ns(true) - all_ns;
	/* So that no load is left out. */
	if (sum == 1)
		fprintf(stderr, "never\n");
	ret->bare_per_sec = (double)b->n_samples * 1e9 / all_ns;
	r = 0;
out:
	free(hash);
	free(region);
	free(bitmap);
	free(chunk);
	free(word);
	if (r < 0)
		fprintf(stderr, "bench_pipeline: not enough memory\n");
	return r;
}

static void print_result(const struct bench *b, const struct result *result, bool json)
{
	const struct {
		const char *name, *unit;
		double value;
	} rows[] = {
		{ "pipeline_samples_per_sec", "samples/s", result->pipeline_per_sec },
		{ "bare_updates_per_sec", "updates/s", result->bare_per_sec },
		{ "pipeline_ratio", "ratio", result->pipeline_per_sec / result->bare_per_sec },
		{ "user_ns_per_sample", "ns", result->user_ns },
		{ "table_bytes_per_page", "bytes", (double)result->table_bytes / (double)b->pages },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		if (json)
			printf("%s\"%s\": %.3f", i ? ", " : "{ ", rows[i].name, rows[i].value);
		else
			printf("%s %.3f %s\n", rows[i].name, rows[i].value, rows[i].unit);
	}
	if (json)
		printf(" }\n");
}

static int fail_usage(void)
{
	fputs(usage, stderr);
	return 64;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "gib", required_argument, NULL, 'g' },
		{ "samples", required_argument, NULL, 's' },
		{ "json", no_argument, NULL, 'j' },
		{ "help", no_argument, NULL, 'h' },
		{ 0 },
	};
	static struct bench bench = { .seed = 88172645463325252ULL, .n_samples = 5000000 };
	struct result result = { 0 };
	uint64_t gib = 8;
	bool json = false;
	int option, r;

	while ((option = getopt_long(argc, argv, "", options, NULL)) >= 0) {
		switch (option) {
		case 'g':
			if (parse_u64(optarg, 1, 64, &gib) < 0)
				return fail_usage();
			break;
		case 's':
			if (parse_u64(optarg, 1000, 1000000000, &bench.n_samples) < 0)
				return fail_usage();
			break;
		case 'j':
			json = true;
			break;
		case 'h':
			fputs(usage, stdout);
			return 0;
		default:
			return fail_usage();
		}
	}
	if (optind < argc)
		return fail_usage();
	bench.pages = (gib << 30) / PAGE_SIZE_BYTES;
	rcu_thread_start();
	r = setup(&bench);
	if (r == 0)
		r = run_pipeline(&bench, &result);
	rcu_thread_stop();
	if (r == 0)
		r = run_bare(&bench, &result);
	if (r == 0)
		print_result(&bench, &result, json);
	teardown(&bench);
	return r < 0 ? 1 : 0;
}
