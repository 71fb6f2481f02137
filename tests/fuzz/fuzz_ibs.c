/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Any bytes as a raw record of IBS: 1 byte says which machine and unit, 8 what else (see below), the rest is the
 * record, in an allocation of its own. The decoder outlives a run, since it remembers what the last record was like.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "../unit/ibs_records.h"
#include "decode.h"
#include "fuzz_main.h"
#include "ibs_mprof_record.h"
#include "ibs_sample.h"
#include "source_ibs_record.h"

#define MACHINES 4

static const struct ibs_decoder_params machines[MACHINES] = {
	{ .kind = IBS_PMU_OP, .family = 0x17, .model = 0x31, .physical_bits = 43 },
	{ .kind = IBS_PMU_OP, .family = 0x19, .model = 0x01, .physical_bits = 48, .user_only = true },
	{ .kind = IBS_PMU_OP, .family = 0x1a, .model = 0x02, .physical_bits = 52, .self_pid = 1 },
	{ .kind = IBS_PMU_MPROF, .family = 0x1a, .model = 0x50 },
};
static struct ibs_decoder decoders[MACHINES];
static struct source_ibs_record records[MACHINES][2];

static void init(void)
{
	static bool done;

	for (int i = 0; i < MACHINES && !done; i++) {
		ibs_decoder_init(&decoders[i], &machines[i]);
		for (int page = 0; page < 2; page++)
			if (source_ibs_record_init(&records[i][page], source_ibs_sample_type(page), &machines[i]) < 0)
				abort();
	}
	done = true;
}

#define MUST(condition)           \
	do {                      \
		if (!(condition)) \
			abort();  \
	} while (0)

/* What holds of every record that was taken. */
static void check_op(const struct ibs_decoder *decoder, const struct ibs_op *op)
{
	uint32_t flags = op->access_flags;

	MUST((op->control_flags & (IBS_ENABLED | IBS_VALID)) == (IBS_ENABLED | IBS_VALID));
	MUST(op->max_count % 16 == 0 && op->max_count < 1U << 27 && op->current_count < 1U << 27);
	MUST(op->source < IBS_SOURCES && op->source_code < IBS_SOURCE_CODES && op->open_requests < 64);
	MUST((op->width_bytes & (op->width_bytes - 1)) == 0 && op->width_bytes <= 16384);
	MUST(op->page_shift == 0 || op->page_shift == 12 || op->page_shift == 21 || op->page_shift == 30);
	MUST(op->latency_threshold_cycles % 128 == 0 && op->latency_threshold_cycles <= 2048);
	MUST(op->miss_latency_cycles == 0 ||
	     (flags & (IBS_LOAD | IBS_DC_MISS | IBS_UNCACHED | IBS_SW_PREFETCH)) == (IBS_LOAD | IBS_DC_MISS));
	if (!(flags & IBS_LOAD))
		MUST(op->source <= IBS_SOURCE_LINE_FILL);
	if (!(flags & (IBS_LOAD | IBS_STORE)))
		MUST(op->source == IBS_SOURCE_NONE);
	if (!(op->caps & IBS_CAP_BRANCH_TARGET) || decoder->params.kind == IBS_PMU_MPROF)
		MUST(op->branch_target == 0);
	if (decoder->params.kind == IBS_PMU_MPROF)
		MUST(op->rip == 0 && op->data4 == 0 && op->op_flags == 0);
}

static void check_sample(const struct ibs_decoder *decoder, const struct ibs_op *op, const uint8_t *more)
{
	struct decode_sample decoded = { .pid = more[0], .misc = more[1], .weight = more[2] };
	struct sample sample;
	enum ibs_discard why;

	decoded.phys_addr = more[3] & 1 ? (uint64_t)more[4] << 45 : 0;
	decoded.data_page_bytes = 1ULL << (more[5] & 63);
	why = ibs_to_sample(decoder, &decoded, op, more[6], &sample);
	MUST(why < IBS_DISCARDS);
	if (why != IBS_KEEP)
		return;
	MUST(sample.pid != 0 && sample.pid != UINT32_MAX && sample.pid != decoder->params.self_pid);
	MUST(sample.phys != 0 && (sample.phys & ~decoder->physical_mask) == 0);
	MUST(sample.addr != 0 && sample.addr >> 56 == 0);
	MUST(sample.flags & (SAMPLE_LOAD | SAMPLE_STORE));
	MUST(sample.cpu == more[6] && sample.page_shift < 64);
}

/* By the other way of saying it. */
static void check_reference(const struct ibs_decoder *decoder, const uint8_t *raw, size_t bytes,
			    const struct ibs_op *op)
{
	struct ibs_test_record record = { 0 };
	struct ibs_op want;

	memcpy(&record.caps, raw, 4);
	memcpy(record.reg, raw + 4, 7 * 8);
	if (bit(record.caps, 5))
		memcpy(&record.reg[OP_BRANCH], raw + 60, 8);
	if (bit(record.caps, 10))
		memcpy(&record.reg[OP_DATA4], raw + bytes - 8, 8);
	ibs_test_decode(&record, decoder->params.family, decoder->params.model, &want);
	MUST(memcmp(&want, op, sizeof(want)) == 0);
}

static size_t length_by_caps(const struct ibs_decoder *decoder, const uint8_t *raw)
{
	uint32_t caps;

	if (decoder->params.kind == IBS_PMU_MPROF)
		return sizeof(struct ibs_mprof_record);
	memcpy(&caps, raw, 4);
	return 60 + (bit(caps, 5) ? 8 : 0) + (bit(caps, 10) ? 8 : 0);
}

static void look_at_raw(struct ibs_decoder *decoder, const uint8_t *more, const uint8_t *data, size_t size)
{
	uint8_t *raw = malloc(size ? size : 1);
	struct ibs_op op;
	int r;

	MUST(raw);
	memcpy(raw, data, size);
	memset(&op, 0, sizeof(op)); /* its padding */
	r = ibs_decode(decoder, raw, size, &op);
	MUST(r == 0 || r == -EBADMSG || r == -ENOTSUP);
	if (size < 4 || size < length_by_caps(decoder, raw))
		MUST(r == -EBADMSG);
	else if (size > length_by_caps(decoder, raw))
		MUST(r == -ENOTSUP);
	if (r == 0) {
		check_op(decoder, &op);
		check_sample(decoder, &op, more);
		if (decoder->params.kind == IBS_PMU_OP)
			check_reference(decoder, raw, size, &op);
	}
	free(raw);
}

/* The whole as one perf record: as the two decoders say, one after the other. */
static void look_at_record(struct source_ibs_record *record, const uint8_t *data, size_t size)
{
	struct perf_event_header *header;
	struct decode_sample decoded;
	static struct ibs_decoder other;
	struct ibs_op op;
	uint16_t bytes;
	int r, r2;

	if (size < 8 || size > UINT16_MAX)
		return;
	header = malloc(size);
	MUST(header);
	memcpy(header, data, size);
	memset(&op, 0, sizeof(op));
	/* The low bits of what stands there keep it from being right always. */
	bytes = data[6] & 1 ? (uint16_t)size : (uint16_t)(size - data[7] % size);
	memcpy((uint8_t *)header + 6, &bytes, 2);
	r = source_ibs_record_take(record, header);
	r2 = decode_sample(record->sample_type, header, &decoded);
	if (r2 == 0) {
		if (other.params.family != record->decoder.params.family ||
		    other.params.kind != record->decoder.params.kind)
			ibs_decoder_init(&other, &record->decoder.params);
		r2 = ibs_decode(&other, decoded.raw, decoded.raw_bytes, &op);
	}
	MUST(r == r2);
	if (r == 0) {
		MUST(memcmp(&record->op, &op, sizeof(op)) == 0);
		MUST(record->decoded.pid == decoded.pid && record->decoded.time_ns == decoded.time_ns &&
		     record->decoded.addr == decoded.addr && record->decoded.cpu == decoded.cpu &&
		     record->decoded.period == decoded.period && record->decoded.weight == decoded.weight &&
		     record->decoded.data_src == decoded.data_src && record->decoded.phys_addr == decoded.phys_addr &&
		     record->decoded.data_page_bytes == decoded.data_page_bytes &&
		     record->decoded.misc == decoded.misc);
	}
	free(header);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	unsigned int machine;

	init();
	if (size < 9)
		return 0;
	machine = data[0] % MACHINES;
	look_at_raw(&decoders[machine], data + 1, data + 9, size - 9);
	look_at_record(&records[machine][data[0] >> 7], data + 9, size - 9);
	return 0;
}
