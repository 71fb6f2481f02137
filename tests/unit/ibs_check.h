/* SPDX-License-Identifier: GPL-2.0-or-later */
/* ibs_check: the decoder at one record, and two results side by side. */
#pragma once

#include "harness.h"
#include "ibs_records.h"

static inline struct ibs_decoder *decoder_of(unsigned int family, unsigned int model)
{
	static struct ibs_decoder decoder;

	ibs_decoder_init(&decoder, &(struct ibs_decoder_params){ .family = family, .model = model });
	return &decoder;
}

/* false, with a word, when the two differ. */
static inline bool is_same(const struct ibs_op *got, const struct ibs_op *want)
{
	bool same = true;

#define SAME(field)                                                                                      \
	do {                                                                                             \
		if (got->field != want->field) {                                                         \
			printf("  " #field ": %#llx instead of %#llx\n", (unsigned long long)got->field, \
			       (unsigned long long)want->field);                                         \
			same = false;                                                                    \
		}                                                                                        \
	} while (0)
	SAME(rip);
	SAME(completion_to_retire_cycles);
	SAME(tag_to_retire_cycles);
	SAME(op_flags);
	SAME(linear);
	SAME(physical);
	SAME(branch_target);
	SAME(data4);
	SAME(access_flags);
	SAME(miss_latency_cycles);
	SAME(refill_latency_cycles);
	SAME(control_flags);
	SAME(current_count);
	SAME(max_count);
	SAME(width_bytes);
	SAME(open_requests);
	SAME(page_shift);
	SAME(source);
	SAME(source_code);
	SAME(source_flags);
	SAME(latency_threshold_cycles);
	SAME(reserved);
	SAME(caps);
#undef SAME
	return same;
}

static inline struct ibs_op decode(struct ibs_decoder *decoder, const struct ibs_test_record *record)
{
	struct ibs_op op = { 0 };
	size_t bytes;
	unsigned char *raw = ibs_test_raw(record, &bytes);

	CU_ASSERT_EQUAL(ibs_decode(decoder, raw, bytes, &op), 0);
	free(raw);
	return op;
}
