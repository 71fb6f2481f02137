/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a test writes to /dev/pghot_ibs_raw: raw register values that come out as one
 * sample of the event that is active on the writer's CPU, with the writer as its task.
 */
#pragma once

#include <linux/types.h>

#define IBS_RAW_REGS_MAX 9

/**
 * One sample, or several in an array. The sample's raw payload is caps and the first
 * nr registers. ADDR, PHYS_ADDR, DATA_SRC, WEIGHT and IP are taken from the registers
 * as a kernel does it.
 *
 * write() returns the bytes taken; -ENODEV when no event is active on this CPU or it
 * was throttled, -EINVAL when nr is 0 or above IBS_RAW_REGS_MAX or the size is odd.
 */
struct ibs_raw {
	__u32 caps;
	__u32 nr;
	/*
	 * ibs_op: OpCtl, OpRip, OpData, OpData2, OpData3, DcLinAd, DcPhysAd, then
	 * BrTarget if caps bit 5 is set, OpData4 if bit 10 is.
	 * ibs_mprof: as struct ibs_mprof_record of include/ibs_mprof_record.h.
	 */
	__u64 reg[IBS_RAW_REGS_MAX];
};
