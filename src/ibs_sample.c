/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <stdbool.h>

#include "decode.h"
#include "ibs_sample.h"

/* PERF_RECORD_MISC_* of include/uapi/linux/perf_event.h, which the data plane's pure parts go without. */
#define MISC_MODE_MASK    7
#define MISC_KERNEL       1
#define MISC_HYPERVISOR   3
#define MISC_GUEST_KERNEL 4
#define MISC_GUEST_USER   5

/* On x86-64 the user half is below 2^47, or 2^56 with five levels. */
static bool is_kernel_address(uint64_t addr)
{
	return addr >> 56 != 0;
}

static bool is_kernel_mode(const struct decode_sample *decoded, const struct ibs_op *op)
{
	unsigned int mode = decoded->misc & MISC_MODE_MASK;

	/* The profiler has no instruction address: there it is 0, which is none of the kernel's. */
	return mode == MISC_KERNEL || mode == MISC_HYPERVISOR ||
	       (!(op->op_flags & IBS_RIP_INVALID) && is_kernel_address(op->rip));
}

static uint64_t physical_address(const struct ibs_decoder *decoder, const struct decode_sample *decoded,
				 const struct ibs_op *op)
{
	uint64_t phys = decoded->phys_addr;

	if (phys == 0 && (op->access_flags & IBS_PHYSICAL_VALID))
		phys = op->physical;
	return phys & decoder->physical_mask;
}

static uint32_t latency(const struct decode_sample *decoded, const struct ibs_op *op)
{
	if (op->miss_latency_cycles)
		return op->miss_latency_cycles;
	return decoded->weight > UINT32_MAX ? UINT32_MAX : (uint32_t)decoded->weight;
}

static enum ibs_discard why_discard(const struct ibs_decoder *decoder, const struct decode_sample *decoded,
				    const struct ibs_op *op)
{
	unsigned int mode = decoded->misc & MISC_MODE_MASK;

	if (mode == MISC_GUEST_KERNEL || mode == MISC_GUEST_USER)
		return IBS_DISCARD_GUEST;
	if (decoded->pid == 0 || decoded->pid == UINT32_MAX)
		return IBS_DISCARD_NO_PID;
	if (decoded->pid == decoder->params.self_pid)
		return IBS_DISCARD_SELF;
	if (!(op->access_flags & (IBS_LOAD | IBS_STORE)))
		return IBS_DISCARD_NO_ACCESS;
	if (op->access_flags & IBS_SW_PREFETCH)
		return IBS_DISCARD_PREFETCH;
	if (!(op->access_flags & IBS_LINEAR_VALID) || op->linear == 0)
		return IBS_DISCARD_NO_ADDRESS;
	if (is_kernel_address(op->linear) || (decoder->params.user_only && is_kernel_mode(decoded, op)))
		return IBS_DISCARD_KERNEL;
	if (physical_address(decoder, decoded, op) == 0)
		return IBS_DISCARD_NO_PHYS;
	return IBS_KEEP;
}

enum ibs_discard ibs_to_sample(const struct ibs_decoder *decoder, const struct decode_sample *decoded,
			       const struct ibs_op *op, int cpu, struct sample *ret)
{
	enum ibs_discard why = why_discard(decoder, decoded, op);

	if (why != IBS_KEEP)
		return why;
	*ret = (struct sample){
		.time_ns = decoded->time_ns,
		.addr = op->linear,
		.phys = physical_address(decoder, decoded, op),
		.pid = decoded->pid,
		.latency = latency(decoded, op),
		.cpu = (uint16_t)cpu,
		.page_shift = op->page_shift ? op->page_shift : sample_page_shift(decoded->data_page_bytes),
		.source = SAMPLE_SOURCE_IBS,
		.flags = (op->access_flags & IBS_LOAD ? SAMPLE_LOAD : 0) |
			 (op->access_flags & IBS_STORE ? SAMPLE_STORE : 0),
	};
	return IBS_KEEP;
}
