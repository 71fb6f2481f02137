/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "budget_meter.h"
#include "cleanup.h"
#include "clock.h"
#include "config.h"
#include "perf_ring.h"
#include "privops.h"
#include "source_cpus.h"
#include "source_ibs_attr.h"
#include "source_ibs_record.h"
#include "source_ibs_trial.h"

/* Room for four times the samples that a CPU of 4 GHz gives. */
#define RING_BYTES  (128U << 10)
#define GAPS_MAX    1024
#define RECORDS_MIN 8 /* to say something of all */

/* Every op of this thread may be one: a loop that reads the clock misses no cache. */
static void make_attr(const struct ibs_pmu *pmu, struct perf_event_attr *ret)
{
	struct ibs_request request = { .period = SOURCE_IBS_TRIAL_PERIOD, .count = IBS_COUNT_CYCLES };
	struct ibs_settled settled;
	char why[IBS_WHY_MAX];

	(void)source_ibs_attr(pmu, &request, ret, &settled, why);
}

/* Bind to @cpu. 0 with where the thread could run before in @before, or -errno. */
static int bind(int cpu, cpu_set_t *before, size_t size)
{
	cpu_set_t *one = CPU_ALLOC(SOURCE_CPUS_MAX);
	int r = 0;

	if (!one)
		return -ENOMEM;
	CPU_ZERO_S(size, one);
	CPU_SET_S((size_t)cpu, size, one);
	if (sched_getaffinity(0, size, before) < 0 || sched_setaffinity(0, size, one) < 0)
		r = -errno;
	CPU_FREE(one);
	return r;
}

/* Read what came. */
static int take_all(struct perf_ring *ring, uint64_t sample_type, const struct ibs_decoder_params *params,
		    struct source_ibs_trial *ret)
{
	struct source_ibs_record *record = aligned_alloc(_Alignof(struct source_ibs_record), sizeof(*record));
	const struct perf_event_header *header;
	int r;

	if (!record)
		return -ENOMEM;
	r = source_ibs_record_init(record, sample_type, params);
	perf_ring_begin(ring);
	while (r == 0 && (header = perf_ring_next(ring, NULL))) {
		if (header->type != PERF_RECORD_SAMPLE)
			continue;
		ret->records++;
		if (source_ibs_record_take(record, header) == 0)
			continue;
		ret->bad++;
		ret->misfit = source_ibs_record_misfit(record, header);
	}
	perf_ring_end(ring);
	free(record);
	return r;
}

static int spin_and_read(const struct source_env *env, int fd, struct perf_ring *ring, uint64_t sample_type,
			 const struct ibs_decoder_params *params, struct source_ibs_trial *ret)
{
	uint64_t *gaps = calloc(GAPS_MAX, sizeof(*gaps));
	size_t n = 0;
	int r;

	if (!gaps)
		return -ENOMEM;
	r = privops_event_enable(env->privops, fd, true);
	if (r == 0) {
		n = budget_meter_spin(env->clock, SOURCE_IBS_TRIAL_NS, gaps, GAPS_MAX);
		(void)privops_event_enable(env->privops, fd, false);
		r = take_all(ring, sample_type, params, ret);
	}
	/* Other gaps than the samples' make it say no: then what is assumed has to do. */
	if (r == 0 && env->meter)
		ret->measured = budget_meter_calibrate(env->meter, gaps, n, ret->records) == 0;
	free(gaps);
	return r;
}

static int try_on(const struct source_env *env, int cpu, const struct perf_event_attr *attr,
		  const struct ibs_decoder_params *params, struct source_ibs_trial *ret)
{
	_cleanup_close_ int fd = privops_event_open(env->privops, attr, cpu);
	struct perf_ring *ring;
	int r;

	if (fd < 0)
		return fd;
	r = perf_ring_map(fd, RING_BYTES, &ring);
	if (r < 0)
		return r;
	r = spin_and_read(env, fd, ring, attr->sample_type, params, ret);
	perf_ring_free(ring);
	return r;
}

int source_ibs_trial(const struct source_env *env, const struct ibs_pmu *pmu, const struct ibs_decoder_params *params,
		     struct source_ibs_trial *ret)
{
	size_t size = CPU_ALLOC_SIZE(SOURCE_CPUS_MAX);
	struct perf_event_attr attr;
	struct source_cpus cpus;
	cpu_set_t *before;
	int cpu, r;

	*ret = (struct source_ibs_trial){ 0 };
	r = source_cpus_read(env->root, env->config->sampling_cpus, &cpus);
	if (r < 0)
		return r;
	cpu = source_cpus_next_online(&cpus, 0);
	make_attr(pmu, &attr);
	before = CPU_ALLOC(SOURCE_CPUS_MAX);
	if (!before)
		return -ENOMEM;
	r = bind(cpu, before, size);
	if (r == 0) {
		r = try_on(env, cpu, &attr, params, ret);
		(void)sched_setaffinity(0, size, before);
	}
	CPU_FREE(before);
	if (r == 0 && ret->records >= RECORDS_MIN && ret->bad == ret->records)
		return -EPROTO;
	return r;
}
