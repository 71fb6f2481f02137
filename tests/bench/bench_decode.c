/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * bench_decode [--json]: what it costs one core to take apart whole perf records of 160 bytes with every register of
 * IBS in them, against a plain copy of the same 512 KiB. The best of many short rounds of each, turn by turn: what else
 * the machine does only adds to a round. Another program on the same core can do so for seconds, so it goes on until no
 * best has fallen for as long as all before took. Exits 1 below the ratio that the daemon promises.
 */
#include <linux/perf_event.h>

#include "bench.h"

#include "../unit/ibs_records.h"
#include "ibs_sample.h"
#include "source_ibs_record.h"

#define BUFFER_BYTES (512U << 10)
#define RECORD_BYTES 160U
#define RECORDS      (BUFFER_BYTES / RECORD_BYTES)
#define SECONDS_MIN  10
#define SECONDS_MAX  60
#define RATIO_MIN    0.45

static struct source_ibs_record record;

static uint64_t next_random(void)
{
	static uint64_t state = 88172645463325252;

	return bench_random(&state);
}

/* One record at @at: any values in all registers, of a load beyond L2 for the most part. */
static void put_record(unsigned char *at)
{
	struct perf_event_header header = { .type = PERF_RECORD_SAMPLE,
					    .misc = PERF_RECORD_MISC_USER,
					    .size = RECORD_BYTES };
	struct ibs_test_record regs = { .caps = CAPS_FULL };
	uint32_t raw_bytes = 76, pid = 1000 + (uint32_t)(next_random() % 8);
	uint64_t phys = next_random() % (1ULL << 40);
	size_t bytes;
	unsigned char *raw;

	for (int i = 0; i < OP_REGS; i++)
		regs.reg[i] = next_random();
	regs.reg[OP_CTL] |= CTL_ON;
	regs.reg[OP_RIP] >>= 17;
	regs.reg[OP_LINEAR] >>= 17;
	regs.reg[OP_PHYSICAL] = phys;
	if (next_random() % 8)
		regs.reg[OP_DATA3] = (regs.reg[OP_DATA3] & ~(3ULL << 13 | 1ULL << 21)) | 1 | 1 << 7 | 1 << 20 | 3 << 17;
	raw = ibs_test_raw(&regs, &bytes);
	if (bytes != raw_bytes)
		abort();
	for (unsigned int i = 0; i < RECORD_BYTES; i++)
		at[i] = (unsigned char)next_random();
	memcpy(at, &header, sizeof(header));
	memcpy(at + 8, &pid, sizeof(pid));
	memcpy(at + 48, &raw_bytes, sizeof(raw_bytes));
	memcpy(at + 52, raw, raw_bytes);
	memcpy(at + 52 + raw_bytes + 16, &phys, sizeof(phys));
	free(raw);
}

static double round_copy(void *to, const void *from)
{
	double begin = (double)bench_now_ns();

	memcpy(to, from, BUFFER_BYTES);
	bench_used(to);
	return (double)bench_now_ns() - begin;
}

static double round_decode(const unsigned char *from, bool and_sample)
{
	const struct perf_event_header *header;
	struct sample sample;
	double begin = (double)bench_now_ns();
	int bad = 0;

	for (size_t i = 0; i < RECORDS; i++) {
		header = (const struct perf_event_header *)(const void *)(from + i * RECORD_BYTES);
		bad |= source_ibs_record_take(&record, header);
		bench_used(&record);
		if (and_sample) {
			(void)ibs_to_sample(&record.decoder, &record.decoded, &record.op, 0, &sample);
			bench_used(&sample);
		}
	}
	if (bad)
		abort();
	return (double)bench_now_ns() - begin;
}

static double round_registers(const unsigned char *from)
{
	double begin = (double)bench_now_ns();
	struct ibs_op op;
	int bad = 0;

	for (size_t i = 0; i < RECORDS; i++) {
		bad |= ibs_decode(&record.decoder, from + i * RECORD_BYTES + 52, 76, &op);
		bench_used(&op);
	}
	if (bad)
		abort();
	return (double)bench_now_ns() - begin;
}

/* The best rounds of all, in ns. */
struct best {
	double copy, decode, registers, samples;
	uint64_t fell_ns; /* when one of them last fell by a hundredth */
};

static void least(struct best *best, double *least_ns, double took_ns)
{
	if (took_ns >= *least_ns)
		return;
	if (took_ns < *least_ns * 0.99)
		best->fell_ns = bench_now_ns();
	*least_ns = took_ns;
}

static struct best find_best(const unsigned char *from, unsigned char *to)
{
	uint64_t begin_ns = bench_now_ns(), now_ns;
	struct best best = { .copy = 1e18, .decode = 1e18, .registers = 1e18, .samples = 1e18 };

	do {
		least(&best, &best.copy, round_copy(to, from));
		least(&best, &best.decode, round_decode(from, false));
		least(&best, &best.registers, round_registers(from));
		least(&best, &best.samples, round_decode(from, true));
		now_ns = bench_now_ns();
	} while (now_ns - begin_ns < SECONDS_MAX * 1000000000ULL &&
		 (now_ns - begin_ns < SECONDS_MIN * 1000000000ULL || now_ns - best.fell_ns < best.fell_ns - begin_ns));
	return best;
}

int main(int argc, char **argv)
{
	bool json = argc == 2 && strcmp(argv[1], "--json") == 0;
	unsigned char *from, *to;
	struct best best;

	if (argc > 1 && !json) {
		fprintf(stderr, "usage: bench_decode [--json]\n");
		return BENCH_EXIT_USAGE;
	}
	from = aligned_alloc(4096, BUFFER_BYTES);
	to = aligned_alloc(4096, BUFFER_BYTES);
	if (!from || !to)
		return 2;
	memset(from, 0, BUFFER_BYTES);
	memset(to, 0, BUFFER_BYTES);
	for (size_t i = 0; i < RECORDS; i++)
		put_record(from + i * RECORD_BYTES);
	if (source_ibs_record_init(&record, source_ibs_sample_type(true),
				   &(struct ibs_decoder_params){ .family = 0x1a, .model = 2, .physical_bits = 48 }) < 0)
		return 2;
	best = find_best(from, to);
	/* A copy of the whole buffer, of which the records are not quite all. */
	best.copy *= (double)(RECORDS * RECORD_BYTES) / BUFFER_BYTES;
	bench_put("decode_records_per_sec", RECORDS / best.decode * 1e9, "records/s");
	bench_put("copy_records_per_sec", RECORDS / best.copy * 1e9, "records/s");
	bench_put_bar("decode_ratio", best.copy / best.decode, "ratio", BENCH_AT_LEAST, RATIO_MIN);
	bench_put("registers_records_per_sec", RECORDS / best.registers * 1e9, "records/s");
	bench_put("sample_records_per_sec", RECORDS / best.samples * 1e9, "records/s");
	free(from);
	free(to);
	return bench_end(json);
}
