/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Any bytes as a request to the helper process, on a machine with an IBS unit: whatever they say, only the events of
 * the sources are opened, the two settings have only the values that pghotd gives them, and the answer is one.
 */
#include <errno.h>
#include <ftw.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>

#include "fuzz_main.h"
#include "log.h"
#include "privops_answer.h"

#define IBS_TYPE 11

static char folder[64];
static struct privops_helper helper;
static char saved[128];

static void put(const char *path, const char *text)
{
	char full[256];
	FILE *f;

	snprintf(full, sizeof(full), "%s/%s", folder, path);
	for (char *p = strchr(full + 1, '/'); p; p = strchr(p + 1, '/')) {
		*p = '\0';
		if (mkdir(full, 0755) < 0 && errno != EEXIST)
			abort();
		*p = '/';
	}
	f = fopen(full, "we");
	if (!f || fputs(text, f) < 0 || fclose(f) != 0)
		abort();
}

/* Said anew here, by what the kernel would make of it. */
static int check_opened(void *ctx, const struct perf_event_attr *attr, int cpu)
{
	(void)ctx;
	if (cpu < 0 || cpu > 3 || !attr->disabled || attr->inherit || attr->freq || attr->mmap || attr->precise_ip ||
	    attr->exclude_user || attr->enable_on_exec || attr->clockid != CLOCK_MONOTONIC || !attr->use_clockid)
		abort();
	if (attr->sample_type & (PERF_SAMPLE_CALLCHAIN | PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER |
				 PERF_SAMPLE_BRANCH_STACK | PERF_SAMPLE_REGS_INTR | PERF_SAMPLE_AUX | PERF_SAMPLE_READ))
		abort();
	if (attr->branch_sample_type || attr->sample_regs_user || attr->sample_stack_user || attr->sample_regs_intr ||
	    attr->aux_watermark || attr->aux_sample_size || (attr->read_format & PERF_FORMAT_GROUP))
		abort();
	if (attr->type == PERF_TYPE_SOFTWARE) {
		if (attr->config != PERF_COUNT_SW_PAGE_FAULTS_MIN || attr->sample_period != 1)
			abort();
	} else if (attr->type != IBS_TYPE || (attr->config & ~(uint64_t)(1 << 19 | 1 << 16)) ||
		   (attr->config1 & ~(uint64_t)0xfff) || attr->config2 > 1 || attr->sample_period < 144) {
		abort();
	}
	return dup(helper.priv.root.fd);
}

static const struct privops_ops ops = { .event_open = check_opened };

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st, (void)type, (void)ftw;
	return remove(path);
}

static void clean_up(void)
{
	(void)nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static void set_up(void)
{
	snprintf(folder, sizeof(folder), "%s/fuzz-privops-XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
	if (!mkdtemp(folder) || atexit(clean_up) != 0)
		abort();
	log_init(LOG_TARGET_STDERR, LOG_EMERG);
	put("sys/bus/event_source/devices/ibs_op/type", "11\n");
	put("sys/bus/event_source/devices/ibs_op/format/cnt_ctl", "config:19\n");
	put("sys/bus/event_source/devices/ibs_op/format/l3missonly", "config:16\n");
	put("sys/bus/event_source/devices/ibs_op/format/ldlat", "config1:0-11\n");
	put("sys/bus/event_source/devices/ibs_op/format/swfilt", "config2:0\n");
	put("sys/devices/system/cpu/possible", "0-3\n");
	put("sys/kernel/debug/pghot/enabled_sources", "3\n");
	put("sys/kernel/debug/kvm/12-3/x", "0\n");
	put("proc/sys/kernel/numa_balancing", "0\n");
	put("proc/sys/kernel/numa_balancing_promote_rate_limit_MBps", "65536\n");
	snprintf(saved, sizeof(saved), "%s/saved", folder);
	helper.priv.ops = &ops;
	helper.priv.saved_path = saved;
	if (fsroot_open(&helper.priv.root, folder) < 0)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct privops_reply reply;
	uint64_t mode, rate;
	int fd;

	if (!folder[0])
		set_up();
	/* One in two gets past the version by itself. */
	if (size > 0 && (data[0] & 1)) {
		struct privops_request request = { .version = PRIVOPS_WIRE_VERSION };

		size--;
		memcpy(&request.verb, data + 1,
		       size < sizeof(request) - sizeof(request.version) ? size
									: sizeof(request) - sizeof(request.version));
		fd = privops_answer(&helper, 1, &request, sizeof(request), &reply);
	} else {
		fd = privops_answer(&helper, 1, data, size, &reply);
	}
	if (reply.version != PRIVOPS_WIRE_VERSION || reply.n_text > PRIVOPS_TEXT_MAX ||
	    (fd >= 0 && (reply.r != 0 || reply.n_text)))
		abort();
	if (fd >= 0)
		close(fd);
	if (privops_setting_get(&helper.priv, SETTING_NUMA_BALANCING, &mode) < 0 ||
	    privops_setting_get(&helper.priv, SETTING_NUMA_PROMOTE_RATE, &rate) < 0)
		abort();
	if ((mode != 0 && mode != 2 && mode != 3) || (rate != 65536 && rate != 0))
		abort();
	return 0;
}
