/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * bench_pipeline: samples per second of one core from the bytes in a perf ring to the hotness tables, through the
 * daemon's own reader, queue and collector. The records are whole ones of IBS with every register. Beside it, window by
 * window in turn, the bare loop of bare.h. Every page has been sampled before the clock starts, as in a daemon that has
 * run for a while; what the kernel does, writing the records, is not timed.
 */

#include "bare.h"
#include "bench_rig.h"
#include "ibs_decode.h"
#include "parse.h"
#include "perf_ring.h"
#include "reader.h"
#include "source.h"
#include "source_ibs_record.h"

#include "../unit/ibs_records.h"
#include "../unit/perf_records.h"

#define RING_BYTES      (512U << 10) /* the default of threads.ring_kib */
#define DRAIN           2048         /* records to a drain: half a ring and a bit, where the kernel wakes the reader */
#define WINDOW_DRAINS   64
#define RECORD_APART_NS 100 /* no two samples of one time */
#define WINDOWS_MIN     9
#define RATIO_MIN       0.5
#define USER_NS_BESIDE  120.0 /* 2 % of a core at 157,000 samples/s, the rate of the published runs */

static const char usage[] = "Usage: bench_pipeline [--gib=N] [--seconds=N] [--json]\n"
			    "\n"
			    "How many samples a second one core takes from a perf ring into the tables,\n"
			    "beside a bare loop that touches as many random cache lines.\n"
			    "\n"
			    "  --gib=N      memory that is sampled, every page of it (1..256, default 64)\n"
			    "  --seconds=N  how long is measured (1..3600, default 8)\n"
			    "  --json       one JSON object instead of lines \"name value unit\"\n"
			    "  --help       this text\n";

struct pipeline {
	struct rig rig;
	struct bare bare;
	struct fake_ring fake;
	struct source_ring ring;
	struct reader *reader;
	unsigned char record[256]; /* one whole record; what differs is put into it */
	size_t record_bytes, regs_at, phys_at;
	uint64_t seed;
	uint32_t page[DRAIN];
};

static const struct ibs_decoder_params ibs_params = {
	.kind = IBS_PMU_OP, .family = 0x1a, .model = 2, .physical_bits = 48, .user_only = true
};

/* A load beyond L2, served by extension memory, as Zen 5 would tell it. */
static void make_record(struct pipeline *p)
{
	static struct test_record record;
	const uint64_t type = source_ibs_sample_type(false);
	struct ibs_test_record regs = {
		.caps = CAPS_ZEN5,
		.reg = { [OP_CTL] = CTL_ON | 0x1000,
			 [OP_RIP] = 0x401000,
			 [OP_DATA] = 0x500050,
			 [OP_DATA2] = 1ULL << 6, /* code 8 */
			 [OP_DATA3] = 1 | 1 << 7 | 3 << 17 | 1 << 20 | 4 << 22 | 600ULL << 32 },
	};
	struct test_sample sample = {
		.misc = PERF_RECORD_MISC_USER, .pid = RIG_PID, .tid = RIG_PID, .period = 1 << 16
	};
	size_t bytes;
	unsigned char *raw = ibs_test_raw(&regs, &bytes);

	sample.raw = raw;
	sample.raw_bytes = (uint32_t)bytes;
	make_sample_record(&record, type, &sample);
	free(raw);
	if (record.n > sizeof(p->record))
		abort();
	memcpy(p->record, record.bytes, record.n);
	p->record_bytes = record.n;
	p->regs_at = 52 + 4; /* behind header, TID, TIME, ADDR, CPU, PERIOD, size and caps */
	p->phys_at = record.n - 8;
}

static void put_record(struct pipeline *p, uint64_t page, uint64_t now_ns)
{
	uint64_t addr = RIG_ADDR + page * PAGE_SIZE_BYTES, phys = RIG_SLOW_BYTES + page * PAGE_SIZE_BYTES;

	memcpy(p->record + 16, &now_ns, 8);
	memcpy(p->record + 24, &addr, 8);
	memcpy(p->record + p->regs_at + OP_LINEAR * 8, &addr, 8);
	memcpy(p->record + p->regs_at + OP_PHYSICAL * 8, &phys, 8);
	memcpy(p->record + p->phys_at, &phys, 8);
	if (!fake_ring_put(&p->fake, p->record, p->record_bytes))
		abort();
}

static void init(struct pipeline *p, uint64_t pages)
{
	struct rig_options options = {
		.layout = RECORD_PRECISE, .pages = pages, .section_bytes = RIG_BLOCK_BYTES, .shards = 1
	};

	rig_init(&p->rig, &options);
	make_record(p);
	if (!fake_ring_init(&p->fake, RING_BYTES, 0))
		bench_die("not enough memory");
	p->ring = (struct source_ring){
		.fd = -1,
		.ring = perf_ring_wrap(p->fake.base, p->fake.page_bytes, p->fake.data_bytes),
		.sample_type = source_ibs_sample_type(false),
		.source = SAMPLE_SOURCE_IBS,
		.ibs = &ibs_params,
	};
	p->reader = reader_new(&(struct reader_params){
		.stats = stats_slot_new(p->rig.stats), .queues = p->rig.queue, .shards = 1, .self_pid = 1 });
	if (!p->ring.ring || !p->reader || reader_add_ring(p->reader, &p->ring) < 0)
		bench_die("the reader can't be made");
	rig_fill(&p->rig);
	bare_init(&p->bare, pages);
}

static void done(struct pipeline *p)
{
	reader_free(p->reader);
	perf_ring_free(p->ring.ring);
	fake_ring_done(&p->fake);
	bare_done(&p->bare);
	rig_done(&p->rig);
}

static void draw_pages(struct pipeline *p)
{
	for (size_t i = 0; i < DRAIN; i++)
		p->page[i] = (uint32_t)bench_draw(&p->seed, p->rig.pages);
}

/* ns of CPU time for each sample of one window; of that, from the ring to the queue in *@ret_reader. */
static double run_pipeline(struct pipeline *p, double *ret_reader)
{
	uint64_t spent_ns = 0, reader_ns = 0, now_ns, begin_ns;

	for (int i = 0; i < WINDOW_DRAINS; i++) {
		draw_pages(p);
		now_ns = rig_now_ns(&p->rig);
		for (size_t k = 0; k < DRAIN; k++)
			put_record(p, p->page[k], now_ns - (DRAIN - k) * RECORD_APART_NS);
		begin_ns = bench_cpu_ns();
		if (reader_drain(p->reader, &p->ring) != DRAIN)
			bench_die("samples were lost on the way");
		reader_ns += bench_cpu_ns() - begin_ns;
		while (collector_step(p->rig.collector[0], &p->rig.config, now_ns, DRAIN) != 0)
			;
		spent_ns += bench_cpu_ns() - begin_ns;
	}
	*ret_reader = (double)reader_ns / (WINDOW_DRAINS * DRAIN);
	return (double)spent_ns / (WINDOW_DRAINS * DRAIN);
}

typedef uint64_t bare_fn(struct bare *bare, const uint32_t *page, size_t n);

static inline double run_bare(struct pipeline *p, bare_fn *update)
{
	uint64_t spent_ns = 0, begin_ns, sum;

	for (int i = 0; i < WINDOW_DRAINS; i++) {
		draw_pages(p);
		begin_ns = bench_cpu_ns();
		sum = update(&p->bare, p->page, DRAIN);
		bench_used(&sum);
		spent_ns += bench_cpu_ns() - begin_ns;
	}
	return (double)spent_ns / (WINDOW_DRAINS * DRAIN);
}

static void run(struct pipeline *p, uint64_t seconds)
{
	enum { MAX = 1 << 16 };
	static double ours[MAX], reader[MAX], bare[MAX], plain[MAX], ratio[MAX];
	uint64_t end_ns, turn_ns, samples, before = stats_sum(p->rig.stats, STAT_RECORDED);
	struct hotness_usage tables;
	double quarter, three_quarters;
	bool is_realtime;
	size_t n = 0;

	is_realtime = bench_realtime();
	/* Once for the caches, and so that the decoder has met a record. */
	run_pipeline(p, &reader[0]);
	run_bare(p, bare_update);
	end_ns = bench_now_ns() + seconds * NSEC_PER_SEC;
	for (; n < MAX && (n < WINDOWS_MIN || bench_now_ns() < end_ns); n++) {
		turn_ns = bench_now_ns();
		ours[n] = run_pipeline(p, &reader[n]);
		bare[n] = run_bare(p, bare_update);
		plain[n] = run_bare(p, bare_update_plain);
		ratio[n] = bare[n] / ours[n];
		if (is_realtime)
			bench_rest(bench_now_ns() - turn_ns);
	}
	samples = (n + 1) * WINDOW_DRAINS * DRAIN;
	if (stats_sum(p->rig.stats, STAT_RECORDED) - before != samples)
		bench_die("%llu samples went in, but not as many records were made", (unsigned long long)samples);
	hotness_usage(p->rig.hotness, &tables);
	bench_put("lines_per_sample", BARE_LINES, "cache lines");
	bench_put("lines_written_per_sample", BARE_LINES_WRITTEN, "cache lines");
	bench_put("pipeline_samples_per_sec", 1e9 / bench_median(ours, n), "samples/s");
	bench_put("bare_updates_per_sec", 1e9 / bench_median(bare, n), "updates/s");
	bench_put_bar("pipeline_ratio", bench_median(ratio, n), "ratio", BENCH_AT_LEAST, RATIO_MIN);
	quarter = ratio[n / 4];
	three_quarters = ratio[n * 3 / 4];
	bench_put("pipeline_ratio_lower_quartile", quarter, "ratio");
	bench_put("pipeline_ratio_upper_quartile", three_quarters, "ratio");
	bench_put_bar("user_ns_per_sample", bench_median(ours, n), "ns", BENCH_BESIDE, USER_NS_BESIDE);
	bench_put("reader_ns_per_sample", bench_median(reader, n), "ns");
	bench_put("bare_ns_per_update", bench_median(bare, n), "ns");
	bench_put("bare_plain_ns_per_update", bench_median(plain, n), "ns");
	bench_put("table_bytes_per_page", (double)tables.bytes / (double)p->rig.pages, "bytes");
	bench_put("windows", (double)n, "windows");
}

int main(int argc, char **argv)
{
	static struct pipeline pipeline = { .seed = 88172645463325252ULL };
	uint64_t gib = 64, seconds = 8;
	bool json = false;
	const struct bench_option options[] = {
		{ .name = "gib", .number = &gib, .min = 1, .max = 256 },
		{ .name = "seconds", .number = &seconds, .min = 1, .max = 3600 },
		{ .name = "json", .flag = &json },
	};

	bench_options(argc, argv, usage, options, sizeof(options) / sizeof(options[0]));
	rcu_thread_start();
	init(&pipeline, (gib << 30) / PAGE_SIZE_BYTES);
	run(&pipeline, seconds);
	done(&pipeline);
	rcu_thread_stop();
	return bench_end(json);
}
