/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Each bit of each register of ibs_op, by a table of its own. */
#include <stddef.h>

#include "ibs_check.h"

/*
 * Every field of every register, by the names and places in arch/x86/include/asm/amd/ibs.h (union ibs_op_ctl,
 * ibs_op_data, ibs_op_data2, ibs_op_data3), bits of Zen 5 and 6 by the posted series: @first to @last of @reg come out
 * as
 * @member, the lowest of them as @unit. What @also may change with them, as it says when another field is valid.
 */
enum {
	ALSO_SOURCE = 1,  /* source, source_flags */
	ALSO_LATENCY = 2, /* miss_latency_cycles */
	ALSO_PAGE = 4,    /* page_shift */
	ALSO_TLB = 8,     /* the TLB's misses are valid with a physical address only: Zen 5 */
};

#define MEMBER(name) offsetof(struct ibs_op, name), sizeof(((struct ibs_op *)0)->name)

static const struct field {
	int reg, first, last;
	size_t offset, size;
	uint64_t unit;
	uint32_t caps; /* without these there is no such field */
	uint32_t not_caps;
	unsigned int also;
	const char *name; /* in the kernel */
} fields[] = {
	{ OP_CTL, 0, 15, MEMBER(max_count), 16, 0, 0, 0, "opmaxcnt" },
	{ OP_CTL, 16, 16, MEMBER(control_flags), IBS_L3_MISS_ONLY, 1 << 11, 0, 0, "l3missonly" },
	{ OP_CTL, 19, 19, MEMBER(control_flags), IBS_COUNTS_OPS, 1 << 4, 0, 0, "cnt_ctl" },
	{ OP_CTL, 20, 26, MEMBER(max_count), 1 << 20, 1 << 6, 0, 0, "opmaxcnt_ext" },
	{ OP_CTL, 32, 58, MEMBER(current_count), 1, 0, 0, 0, "opcurcnt" },
	{ OP_CTL, 59, 62, MEMBER(latency_threshold_cycles), 128, 1 << 12, 0, 0, "ldlat_thrsh, with ldlat_en" },
	{ OP_RIP, 0, 63, MEMBER(rip), 1, 0, 0, 0, "MSRC001_1034" },
	{ OP_DATA, 0, 15, MEMBER(completion_to_retire_cycles), 1, 0, 0, 0, "comp_to_ret_ctr" },
	{ OP_DATA, 16, 31, MEMBER(tag_to_retire_cycles), 1, 0, 0, 0, "tag_to_ret_ctr" },
	{ OP_DATA, 34, 34, MEMBER(op_flags), IBS_RETURN, 0, 0, 0, "op_return" },
	{ OP_DATA, 35, 35, MEMBER(op_flags), IBS_BRANCH_TAKEN, 0, 0, 0, "op_brn_taken" },
	{ OP_DATA, 36, 36, MEMBER(op_flags), IBS_BRANCH_MISPREDICTED, 0, 0, 0, "op_brn_misp" },
	{ OP_DATA, 37, 37, MEMBER(op_flags), IBS_BRANCH, 0, 0, 0, "op_brn_ret" },
	{ OP_DATA, 38, 38, MEMBER(op_flags), IBS_RIP_INVALID, 1 << 7, 0, 0, "op_rip_invalid" },
	{ OP_DATA, 39, 39, MEMBER(op_flags), IBS_BRANCH_FUSED, 1 << 8, 0, 0, "op_brn_fuse" },
	{ OP_DATA, 40, 40, MEMBER(op_flags), IBS_MICROCODE, 0, 0, 0, "op_microcode" },
	{ OP_DATA2, 0, 2, MEMBER(source_code), 1, 0, 0, ALSO_SOURCE, "data_src_lo" },
	{ OP_DATA2, 4, 4, MEMBER(source_flags), IBS_REMOTE_NODE, 0, 0, 0, "rmt_node" },
	{ OP_DATA2, 6, 7, MEMBER(source_code), 8, 1 << 11, 0, ALSO_SOURCE, "data_src_hi" },
	{ OP_DATA2, 8, 8, MEMBER(source_flags), IBS_STREAMING_STORE, 1 << 16, 0, 0, "strm_st" },
	{ OP_DATA2, 9, 9, MEMBER(source_flags), IBS_REMOTE_SOCKET, 1 << 16, 0, 0, "rmt_socket" },
	{ OP_DATA3, 0, 0, MEMBER(access_flags), IBS_LOAD, 0, 0, ALSO_SOURCE | ALSO_LATENCY, "ld_op" },
	{ OP_DATA3, 1, 1, MEMBER(access_flags), IBS_STORE, 0, 0, 0, "st_op" },
	{ OP_DATA3, 2, 2, MEMBER(access_flags), IBS_L1_TLB_MISS, 0, 0, 0, "dc_l1tlb_miss" },
	{ OP_DATA3, 3, 3, MEMBER(access_flags), IBS_L2_TLB_MISS, 0, 0, 0, "dc_l2tlb_miss" },
	{ OP_DATA3, 4, 4, MEMBER(access_flags), IBS_L1_TLB_HIT_2M, 0, 1 << 19, ALSO_PAGE, "dc_l1tlb_hit_2m" },
	{ OP_DATA3, 5, 5, MEMBER(access_flags), IBS_L1_TLB_HIT_1G, 0, 1 << 19, ALSO_PAGE, "dc_l1tlb_hit_1g" },
	{ OP_DATA3, 6, 6, MEMBER(access_flags), IBS_L2_TLB_HIT_2M, 0, 1 << 19, ALSO_PAGE, "dc_l2tlb_hit_2m" },
	{ OP_DATA3, 4, 5, MEMBER(page_shift), 0, 1 << 19, 0, ALSO_PAGE, "page size, see page_sizes()" },
	{ OP_DATA3, 7, 7, MEMBER(access_flags), IBS_DC_MISS, 0, 0, ALSO_SOURCE | ALSO_LATENCY, "dc_miss" },
	{ OP_DATA3, 8, 8, MEMBER(access_flags), IBS_MISALIGNED, 0, 0, 0, "dc_mis_acc" },
	{ OP_DATA3, 13, 13, MEMBER(access_flags), IBS_WRITE_COMBINING, 0, 0, 0, "dc_wc_mem_acc" },
	{ OP_DATA3, 14, 14, MEMBER(access_flags), IBS_UNCACHED, 0, 0, ALSO_SOURCE | ALSO_LATENCY, "dc_uc_mem_acc" },
	{ OP_DATA3, 15, 15, MEMBER(access_flags), IBS_LOCKED, 0, 0, 0, "dc_locked_op" },
	{ OP_DATA3, 16, 16, MEMBER(access_flags), IBS_NO_MAB, 0, 0, ALSO_SOURCE, "dc_miss_no_mab_alloc" },
	{ OP_DATA3, 17, 17, MEMBER(access_flags), IBS_LINEAR_VALID, 0, 0, 0, "dc_lin_addr_valid" },
	{ OP_DATA3, 18, 18, MEMBER(access_flags), IBS_PHYSICAL_VALID, 0, 0, ALSO_PAGE | ALSO_TLB, "dc_phy_addr_valid" },
	{ OP_DATA3, 19, 19, MEMBER(access_flags), IBS_L2_TLB_HIT_1G, 0, 1 << 19, ALSO_PAGE, "dc_l2_tlb_hit_1g" },
	{ OP_DATA3, 20, 20, MEMBER(access_flags), IBS_L2_MISS, 0, 0, ALSO_SOURCE, "l2_miss" },
	{ OP_DATA3, 21, 21, MEMBER(access_flags), IBS_SW_PREFETCH, 0, 0, ALSO_LATENCY, "sw_pf" },
	{ OP_DATA3, 22, 25, MEMBER(width_bytes), 0, 0, 0, 0, "op_mem_width, see access_widths()" },
	{ OP_DATA3, 26, 31, MEMBER(open_requests), 1, 0, 0, 0, "op_dc_miss_open_mem_reqs" },
	{ OP_DATA3, 32, 47, MEMBER(miss_latency_cycles), 1, 0, 0, 0, "dc_miss_lat" },
	{ OP_DATA3, 48, 63, MEMBER(refill_latency_cycles), 1, 0, 0, 0, "tlb_refill_lat" },
	{ OP_LINEAR, 0, 63, MEMBER(linear), 1, 0, 0, 0, "MSRC001_1038" },
	{ OP_PHYSICAL, 0, 63, MEMBER(physical), 1, 0, 0, 0, "MSRC001_1039" },
	{ OP_BRANCH, 0, 63, MEMBER(branch_target), 1, 1 << 5, 0, 0, "MSRC001_103B" },
	{ OP_DATA4, 0, 63, MEMBER(data4), 1, 1 << 10, 0, 0, "MSRC001_103D" },
};

static uint64_t member_of(const struct ibs_op *op, const struct field *field)
{
	uint64_t v = 0;

	memcpy(&v, (const char *)op + field->offset, field->size);
	return v;
}

/* The field that bit @n of @reg is in, with these caps; NULL: it is reserved. */
static const struct field *field_of(int reg, int n, uint32_t caps)
{
	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
		if (fields[i].reg == reg && n >= fields[i].first && n <= fields[i].last &&
		    (caps & fields[i].caps) == fields[i].caps && !(caps & fields[i].not_caps))
			return &fields[i];
	return NULL;
}

/* Does nothing but @field (NULL: nothing at all) differ, and what may differ with it? */
static bool only_differs(const struct field *field, struct ibs_op a, struct ibs_op b)
{
	unsigned int also = field ? field->also : 0;
	uint32_t tlb = IBS_L1_TLB_MISS | IBS_L2_TLB_MISS;

	if (field) {
		memset((char *)&a + field->offset, 0, field->size);
		memset((char *)&b + field->offset, 0, field->size);
	}
	if (also & ALSO_SOURCE) {
		a.source = b.source = 0;
		a.source_flags = b.source_flags = 0;
	}
	if (also & ALSO_LATENCY)
		a.miss_latency_cycles = b.miss_latency_cycles = 0;
	if (also & ALSO_PAGE)
		a.page_shift = b.page_shift = 0;
	if (also & ALSO_TLB) {
		a.access_flags &= ~tlb;
		b.access_flags &= ~tlb;
	}
	return is_same(&a, &b);
}

/*
 * Each bit of each register, turned round in a record in which all fields are valid: it comes out in its field, by what
 * it is worth, and in no other; a reserved one comes out nowhere.
 */
static void each_bit_in_its_field(void)
{
	int named = 0, reserved = 0;

	for (size_t c = 0; c < N_TEST_CAPS; c++) {
		uint32_t caps = ibs_test_caps[c];
		struct ibs_test_record base = { .caps = caps };
		struct ibs_op before;

		base.reg[OP_CTL] = CTL_ON | (caps & 1 << 12 ? 1ULL << 63 : 0);
		base.reg[OP_DATA2] = 3;
		base.reg[OP_DATA3] = 1 << 0 | 1 << 7 | 3 << 17 | 1 << 20;
		before = decode(decoder_of(0x1a, 2), &base);
		for (int reg = 0; reg < OP_REGS; reg++)
			for (int n = 0; n < 64; n++) {
				const struct field *field = field_of(reg, n, caps);
				struct ibs_test_record record = base;
				struct ibs_op after;
				uint64_t was, is, want;
				bool well;

				/* Enable, valid and the filter's switch: see no_sample() and latency_thresholds(). */
				if (reg == OP_CTL && (n == 17 || n == 18 || (n == 63 && caps & 1 << 12)))
					continue;
				record.reg[reg] ^= 1ULL << n;
				after = decode(decoder_of(0x1a, 2), &record);
				well = only_differs(field, before, after);
				if (field && field->unit) {
					was = member_of(&before, field);
					is = member_of(&after, field);
					want = field->unit << (n - field->first);
					well &= (record.reg[reg] >> n & 1 ? is - was : was - is) == want;
					if (!(field->also & ALSO_TLB) &&
					    field->offset == offsetof(struct ibs_op, access_flags))
						well &= (is ^ was) == want;
				}
				named += field != NULL;
				reserved += field == NULL;
				if (!well)
					printf("  caps %#x: bit %d of register %d, %s\n", caps, n, reg,
					       field ? field->name : "reserved");
				CU_ASSERT_TRUE(well);
			}
	}
	CU_ASSERT(named > 2000);
	CU_ASSERT(reserved > 500);
}

/* op_mem_width: 0 is not known, n is 2^(n-1) bytes. */
static void access_widths(void)
{
	for (unsigned int n = 0; n < 16; n++) {
		struct ibs_test_record record = { .caps = CAPS_ZEN4,
						  .reg = { [OP_CTL] = CTL_ON, [OP_DATA3] = (uint64_t)n << 22 } };

		CU_ASSERT_EQUAL(decode(decoder_of(0x19, 0x11), &record).width_bytes, n ? 1 << (n - 1) : 0);
	}
}

TEST_MAIN(ibs_decode_fields, TEST(each_bit_in_its_field), TEST(access_widths))
