/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <linux/perf_event.h>
#include <stdbool.h>
#include <string.h>

#include "decode.h"

#define SUPPORTED                                                                                                \
	(PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_ADDR |       \
	 PERF_SAMPLE_ID | PERF_SAMPLE_STREAM_ID | PERF_SAMPLE_CPU | PERF_SAMPLE_PERIOD | PERF_SAMPLE_CALLCHAIN | \
	 PERF_SAMPLE_RAW | PERF_SAMPLE_STACK_USER | PERF_SAMPLE_WEIGHT | PERF_SAMPLE_WEIGHT_STRUCT |             \
	 PERF_SAMPLE_DATA_SRC | PERF_SAMPLE_TRANSACTION | PERF_SAMPLE_PHYS_ADDR | PERF_SAMPLE_CGROUP |           \
	 PERF_SAMPLE_DATA_PAGE_SIZE | PERF_SAMPLE_CODE_PAGE_SIZE | PERF_SAMPLE_AUX)

/* What is left of a record. A take that doesn't fit makes it bad for good and gives 0, so one look at the end will do.
 */
struct cursor {
	const unsigned char *at;
	size_t left;
	bool bad;
};

static const unsigned char *take(struct cursor *cursor, uint64_t bytes)
{
	const unsigned char *at = cursor->at;

	if (bytes > cursor->left) {
		cursor->bad = true;
		cursor->left = 0;
		return NULL;
	}
	cursor->at += bytes;
	cursor->left -= bytes;
	return at;
}

static uint64_t take_u64(struct cursor *cursor)
{
	const unsigned char *at = take(cursor, sizeof(uint64_t));
	uint64_t v = 0;

	if (at)
		memcpy(&v, at, sizeof(v));
	return v;
}

static uint32_t take_u32(struct cursor *cursor)
{
	const unsigned char *at = take(cursor, sizeof(uint32_t));
	uint32_t v = 0;

	if (at)
		memcpy(&v, at, sizeof(v));
	return v;
}

static void skip_callchain(struct cursor *cursor)
{
	uint64_t n = take_u64(cursor);

	/* More than can be left must not come out as little by overflow. */
	take(cursor, n > cursor->left / 8 ? UINT64_MAX : n * 8);
}

static void take_raw(struct cursor *cursor, struct decode_sample *ret)
{
	uint32_t bytes = take_u32(cursor);

	/* The kernel pads so that size and data together are a multiple of 8; if not, what follows can't be found. */
	ret->raw = take(cursor, bytes % 8 == 4 ? bytes : UINT64_MAX);
	ret->raw_bytes = ret->raw ? bytes : 0;
}

static void skip_stack(struct cursor *cursor)
{
	uint64_t bytes = take_u64(cursor);

	if (bytes == 0)
		return; /* then there is no dyn_size either */
	take(cursor, bytes % 8 == 0 ? bytes : UINT64_MAX);
	take_u64(cursor);
}

static void skip_aux(struct cursor *cursor)
{
	uint64_t bytes = take_u64(cursor);

	take(cursor, bytes);
}

static void take_weight(struct cursor *cursor, uint64_t sample_type, struct decode_sample *ret)
{
	union perf_sample_weight weight = { .full = take_u64(cursor) };

	if (sample_type & PERF_SAMPLE_WEIGHT) {
		ret->weight = weight.full;
		return;
	}
	ret->weight = weight.var1_dw;
	ret->weight2 = weight.var2_w;
	ret->weight3 = weight.var3_w;
}

int decode_supports(uint64_t sample_type)
{
	if (sample_type & ~(uint64_t)SUPPORTED)
		return -ENOTSUP;
	if ((sample_type & PERF_SAMPLE_WEIGHT) && (sample_type & PERF_SAMPLE_WEIGHT_STRUCT))
		return -ENOTSUP;
	return 0;
}

/* The fields in front of the first of variable length. */
static void take_head(struct cursor *cursor, uint64_t type, struct decode_sample *ret)
{
	if (type & PERF_SAMPLE_IDENTIFIER)
		ret->identifier = take_u64(cursor);
	if (type & PERF_SAMPLE_IP)
		ret->ip = take_u64(cursor);
	if (type & PERF_SAMPLE_TID) {
		ret->pid = take_u32(cursor);
		ret->tid = take_u32(cursor);
	}
	if (type & PERF_SAMPLE_TIME)
		ret->time_ns = take_u64(cursor);
	if (type & PERF_SAMPLE_ADDR)
		ret->addr = take_u64(cursor);
	if (type & PERF_SAMPLE_ID)
		ret->id = take_u64(cursor);
	if (type & PERF_SAMPLE_STREAM_ID)
		ret->stream_id = take_u64(cursor);
	if (type & PERF_SAMPLE_CPU) {
		ret->cpu = take_u32(cursor);
		(void)take_u32(cursor);
	}
	if (type & PERF_SAMPLE_PERIOD)
		ret->period = take_u64(cursor);
}

static void take_tail(struct cursor *cursor, uint64_t type, struct decode_sample *ret)
{
	if (type & PERF_SAMPLE_CALLCHAIN)
		skip_callchain(cursor);
	if (type & PERF_SAMPLE_RAW)
		take_raw(cursor, ret);
	if (type & PERF_SAMPLE_STACK_USER)
		skip_stack(cursor);
	if (type & PERF_SAMPLE_WEIGHT_TYPE)
		take_weight(cursor, type, ret);
	if (type & PERF_SAMPLE_DATA_SRC)
		ret->data_src = take_u64(cursor);
	if (type & PERF_SAMPLE_TRANSACTION)
		ret->transaction = take_u64(cursor);
	if (type & PERF_SAMPLE_PHYS_ADDR)
		ret->phys_addr = take_u64(cursor);
	if (type & PERF_SAMPLE_CGROUP)
		ret->cgroup = take_u64(cursor);
	if (type & PERF_SAMPLE_DATA_PAGE_SIZE)
		ret->data_page_bytes = take_u64(cursor);
	if (type & PERF_SAMPLE_CODE_PAGE_SIZE)
		ret->code_page_bytes = take_u64(cursor);
	if (type & PERF_SAMPLE_AUX)
		skip_aux(cursor);
}

int decode_sample(uint64_t sample_type, const struct perf_event_header *header, struct decode_sample *ret)
{
	size_t size = header->size;
	struct cursor cursor = { .at = (const unsigned char *)header };

	if (decode_supports(sample_type) < 0)
		return -ENOTSUP;
	if (size < sizeof(*header))
		return -EBADMSG;
	cursor.at += sizeof(*header);
	cursor.left = size - sizeof(*header);
	memset(ret, 0, sizeof(*ret));
	ret->present = sample_type;
	ret->misc = header->misc;
	take_head(&cursor, sample_type, ret);
	take_tail(&cursor, sample_type, ret);
	return cursor.bad ? -EBADMSG : 0;
}

int decode_lost(const struct perf_event_header *header, uint64_t *ret)
{
	struct cursor cursor = { .at = (const unsigned char *)header, .left = header->size };

	take(&cursor, sizeof(*header));
	if (header->type == PERF_RECORD_LOST)
		(void)take_u64(&cursor); /* id: one event to a ring, so it tells nothing */
	else if (header->type != PERF_RECORD_LOST_SAMPLES)
		return -EBADMSG;
	*ret = take_u64(&cursor);
	return cursor.bad ? -EBADMSG : 0;
}
