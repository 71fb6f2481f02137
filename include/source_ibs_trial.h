/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * source_ibs_trial: some milliseconds of one event on one CPU, before the source is opened, as only one such event fits
 * on a CPU. Two things are learnt from it: whether the unit's records are what we take them for, and what a sample
 * costs: a thread that does nothing but read the clock stands still for the length of each.
 */
#pragma once

#include <stdint.h>

#include "ibs_decode.h"
#include "ibs_pmu.h"
#include "source.h"

#define SOURCE_IBS_TRIAL_NS     5000000ULL
#define SOURCE_IBS_TRIAL_PERIOD 100000 /* cycles: some hundred samples in that time */

struct source_ibs_trial {
	unsigned int records; /* that were read */
	unsigned int bad;     /* of them: could not be taken apart, */
	uint64_t misfit;      /* the last of these as source_ibs_record_misfit() has it */
	bool measured;        /* the meter has what a sample costs */
};

/*
 * Try @pmu with its records read as by @params. The calling thread is bound to the lowest sampled CPU meanwhile, keeps
 * it busy for SOURCE_IBS_TRIAL_NS of @env->clock, and is where it was afterwards. 0 with @ret: also when nothing came
 * (the unit is in use, or counts nothing here), which says nothing; -EPROTO when at least 8 records came and none was
 * good; or -errno when the trial could not be made, which is no reason against the source. Main thread.
 */
int source_ibs_trial(const struct source_env *env, const struct ibs_pmu *pmu, const struct ibs_decoder_params *params,
		     struct source_ibs_trial *ret);
