/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <linux/perf_event.h>
#include <string.h>

#include "ibs_pmu.h"
#include "nodeset.h"
#include "privops.h"
#include "privops_check.h"
#include "source_cpus.h"
#include "source_ibs_attr.h"

/* The kernel's arithmetic of a ring; threads.ring_kib is far below. */
#define WATERMARK_MAX (1U << 30)

#define SAMPLE_TYPES                                                                                               \
	((uint64_t)(PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_ADDR | PERF_SAMPLE_CPU | PERF_SAMPLE_PERIOD | \
		    PERF_SAMPLE_RAW | PERF_SAMPLE_WEIGHT | PERF_SAMPLE_DATA_SRC | PERF_SAMPLE_PHYS_ADDR |          \
		    PERF_SAMPLE_DATA_PAGE_SIZE))
#define READ_FORMATS ((uint64_t)(PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING | PERF_FORMAT_LOST))
/* Those of a page fault have no registers of a unit. */
#define FAULT_SAMPLE_TYPES (SAMPLE_TYPES & ~(uint64_t)(PERF_SAMPLE_RAW | PERF_SAMPLE_WEIGHT | PERF_SAMPLE_DATA_SRC))

/* What source_ibs_attr() sets. */
static const char *const fields[] = { "cnt_ctl", "l3missonly", "ldlat", "swfilt" };

static int see_cpu(void *ctx, int cpu)
{
	int *cpus = ctx;

	if (cpu >= *cpus)
		*cpus = cpu + 1;
	return 0;
}

static void add_field(const struct ibs_pmu *pmu, const char *name, uint64_t mask[3])
{
	const struct ibs_field *field = ibs_pmu_field(pmu, name);

	for (unsigned int i = 0; field && i < field->n_ranges; i++) {
		unsigned int first = field->ranges[i].first, width = field->ranges[i].last - first + 1;

		mask[field->word] |= UINT64_MAX >> (64 - width) << first;
	}
}

void privops_check_bounds(const struct fsroot *root, struct privops_bounds *ret)
{
	char why[IBS_WHY_MAX], cpus[4096];
	struct ibs_pmu pmu;

	_Static_assert(IBS_PMU_KINDS == PRIVOPS_UNITS, "one place for each unit");
	_Static_assert(IBS_CONFIG_MAX == 3, "one mask for each word");
	*ret = (struct privops_bounds){ 0 };
	for (enum ibs_pmu_kind kind = 0; kind < IBS_PMU_KINDS; kind++) {
		if (ibs_pmu_read(root, kind, &pmu, why) < 0 || pmu.type < PERF_TYPE_MAX)
			continue;
		ret->unit[ret->n_units].type = pmu.type;
		for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
			add_field(&pmu, fields[i], ret->unit[ret->n_units].mask);
		ret->n_units++;
	}
	/* As source_cpus_read(). */
	if (fsroot_read(root, cpus, sizeof(cpus), "sys/devices/system/cpu/possible") > 0 ||
	    fsroot_read(root, cpus, sizeof(cpus), "sys/devices/system/cpu/online") > 0)
		(void)idlist_for_each(cpus, SOURCE_CPUS_MAX - 1, see_cpu, &ret->cpus);
}

/* Is everything from @from on 0? */
static bool is_rest_zero(const struct privops_request *request, size_t from)
{
	const unsigned char *bytes = (const unsigned char *)request;

	for (size_t i = from; i < sizeof(*request); i++)
		if (bytes[i])
			return false;
	return true;
}

int privops_check_parse(const void *data, size_t len, struct privops_request *ret)
{
	size_t used;

	if (len != sizeof(*ret))
		return -EBADMSG;
	memcpy(ret, data, sizeof(*ret));
	if (ret->version != PRIVOPS_WIRE_VERSION)
		return -EPROTONOSUPPORT;
	switch (ret->verb) {
	case PRIVOPS_HELLO:
	case PRIVOPS_RESTORE:
		used = offsetof(struct privops_request, words);
		break;
	case PRIVOPS_EVENT_OPEN:
		used = offsetof(struct privops_request, words) + sizeof(ret->event);
		break;
	case PRIVOPS_SETTING_SET:
		if (ret->set.zero)
			return -EBADMSG;
		used = offsetof(struct privops_request, words) + sizeof(ret->set);
		break;
	case PRIVOPS_ASK:
		used = offsetof(struct privops_request, words) + sizeof(ret->ask);
		break;
	default:
		return -EBADRQC;
	}
	return is_rest_zero(ret, used) ? 0 : -EBADMSG;
}

static bool is_fault_event(const struct privops_event *event)
{
	return event->type == PERF_TYPE_SOFTWARE && event->config == PERF_COUNT_SW_PAGE_FAULTS_MIN && !event->config1 &&
	       !event->config2 && event->sample_period == 1 && !(event->sample_type & ~FAULT_SAMPLE_TYPES) &&
	       !event->read_format && !(event->flags & PRIVOPS_EVENT_EXCLUDE_KERNEL);
}

static bool is_unit_event(const struct privops_event *event, const struct privops_bounds *bounds)
{
	/* The period counts; as a frequency it can't be said. */
	if (event->sample_period < IBS_PERIOD_MIN || event->sample_period > IBS_PERIOD_MAX)
		return false;
	for (size_t i = 0; i < bounds->n_units; i++)
		if (event->type == bounds->unit[i].type)
			return !(event->config & ~bounds->unit[i].mask[0]) &&
			       !(event->config1 & ~bounds->unit[i].mask[1]) &&
			       !(event->config2 & ~bounds->unit[i].mask[2]);
	return false;
}

int privops_check_event(const struct privops_event *event, const struct privops_bounds *bounds)
{
	const uint32_t flags = PRIVOPS_EVENT_EXCLUDE_KERNEL | PRIVOPS_EVENT_WATERMARK;

	if (event->cpu < 0 || event->cpu >= bounds->cpus || (event->flags & ~flags) ||
	    event->wakeup_watermark > WATERMARK_MAX || (event->sample_type & ~SAMPLE_TYPES) ||
	    (event->read_format & ~READ_FORMATS))
		return -EBADRQC;
	return is_fault_event(event) || is_unit_event(event, bounds) ? 0 : -EBADRQC;
}

/* What source_hint_faults sets, and no more. */
int privops_check_setting(uint32_t setting, uint64_t value)
{
	static const struct {
		uint64_t min, max;
	} ranges[SETTING_MAX] = {
		[SETTING_NUMA_BALANCING] = { 2, 3 }, /* tiering, alone or beside mode 1 */
		[SETTING_NUMA_PROMOTE_RATE] = { 0, 0 },
	};

	return setting < SETTING_MAX && value >= ranges[setting].min && value <= ranges[setting].max ? 0 : -EBADRQC;
}

int privops_check_question(const struct privops_request *request)
{
	bool of_process = false, of_page = false;

	switch (request->ask.question) {
	case FSROOT_PGHOT_SOURCES:
	case FSROOT_SCAN_PERIOD:
	case FSROOT_GUESTS:
	case FSROOT_RIVALS:
		break;
	case FSROOT_DEVICE:
	case FSROOT_PAGE:
		of_process = true;
		of_page = request->ask.question == FSROOT_PAGE;
		break;
	default:
		return -EBADRQC;
	}
	if (of_process ? request->ask.pid == 0 || request->ask.pid > INT32_MAX : request->ask.pid != 0)
		return -EBADRQC;
	return of_page || !request->ask.addr ? 0 : -EBADRQC;
}
