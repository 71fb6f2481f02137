/* SPDX-License-Identifier: GPL-2.0-or-later */
/* ibs_sample: from a decoded perf record and the IBS record in it to a sample, or the reason why it is none. Pure. */
#pragma once

#include <stdint.h>

#include "ibs_decode.h"
#include "sample.h"

struct decode_sample;

/* Why a sample is no evidence; tested in this order, which is the reader's with two causes more. */
enum ibs_discard {
	IBS_KEEP,
	IBS_DISCARD_GUEST,      /* addresses of a guest, pid of its virtual machine */
	IBS_DISCARD_NO_PID,     /* idle, exiting, or outside our pid namespace */
	IBS_DISCARD_SELF,       /* ibs_decoder_params.self_pid */
	IBS_DISCARD_NO_ACCESS,  /* neither load nor store */
	IBS_DISCARD_PREFETCH,   /* by software: nobody waits for it, and it may be for nothing */
	IBS_DISCARD_NO_ADDRESS, /* no valid linear address, or 0 */
	IBS_DISCARD_KERNEL,     /* kernel address; with user_only also a user address used in kernel mode */
	IBS_DISCARD_NO_PHYS,    /* physical address 0, whatever the valid bit says: some kernels wipe it */
	IBS_DISCARDS,
};

/* What became of the physical address in the record itself: some kernels hide it there, in two ways. */
enum ibs_phys {
	IBS_PHYS_SHOWN,
	IBS_PHYS_CLEARED, /* the valid bit is clear: by the kernel at the time of the sample, or hardware had none */
	IBS_PHYS_ZEROED,  /* the valid bit is set, the address 0: the opener may not see it */
	IBS_PHYS_STATES,
};

/*
 * Of an access that has a linear address; any other counts as shown. arch/x86/events/amd/ibs.c,
 * perf_ibs_phyaddr_clear() of about 6.14, and what took its place in 7.0. Any thread.
 */
static inline enum ibs_phys ibs_phys_of(const struct ibs_op *op)
{
	if (!(op->access_flags & IBS_LINEAR_VALID))
		return IBS_PHYS_SHOWN;
	if (!(op->access_flags & IBS_PHYSICAL_VALID))
		return IBS_PHYS_CLEARED;
	return op->physical ? IBS_PHYS_SHOWN : IBS_PHYS_ZEROED;
}

/*
 * The physical address is the record's PHYS_ADDR, which kernels that wipe the register still fill by a walk, else
 * DcPhysAd; both without what is above the machine's width (an encryption bit). The latency is that of a load that
 * missed L1, else WEIGHT where it was asked for. The page size is the record's, else DATA_PAGE_SIZE. @cpu: the ring's.
 * @ret is set with IBS_KEEP only. Any thread.
 */
enum ibs_discard ibs_to_sample(const struct ibs_decoder *decoder, const struct decode_sample *decoded,
			       const struct ibs_op *op, int cpu, struct sample *ret);
