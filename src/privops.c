/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <inttypes.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "log.h"
#include "privops.h"
#include "privops_saved.h"

const char *const privops_setting_path[SETTING_MAX] = {
	[SETTING_NUMA_BALANCING] = "proc/sys/kernel/numa_balancing",
	[SETTING_NUMA_PROMOTE_RATE] = "proc/sys/kernel/numa_balancing_promote_rate_limit_MBps",
};

const char *const privops_setting_name[SETTING_MAX] = {
	[SETTING_NUMA_BALANCING] = "kernel.numa_balancing",
	[SETTING_NUMA_PROMOTE_RATE] = "kernel.numa_balancing_promote_rate_limit_MBps",
};

static int direct_event_open(void *ctx, const struct perf_event_attr *attr, int cpu)
{
	long fd;

	(void)ctx;
	fd = syscall(SYS_perf_event_open, attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);
	return fd < 0 ? -errno : (int)fd;
}

static int direct_event_enable(void *ctx, int fd, bool on)
{
	(void)ctx;
	return ioctl(fd, on ? PERF_EVENT_IOC_ENABLE : PERF_EVENT_IOC_DISABLE, 0) < 0 ? -errno : 0;
}

static int direct_event_period(void *ctx, int fd, uint64_t period)
{
	(void)ctx;
	return ioctl(fd, PERF_EVENT_IOC_PERIOD, &period) < 0 ? -errno : 0;
}

const struct privops_ops privops_direct = {
	.event_open = direct_event_open,
	.event_enable = direct_event_enable,
	.event_period = direct_event_period,
};

int privops_event_open(const struct privops *priv, const struct perf_event_attr *attr, int cpu)
{
	return priv->ops->event_open(priv->ctx, attr, cpu);
}

int privops_event_enable(const struct privops *priv, int fd, bool on)
{
	return (priv->ops->event_enable ? priv->ops->event_enable : direct_event_enable)(priv->ctx, fd, on);
}

int privops_event_period(const struct privops *priv, int fd, uint64_t period)
{
	return (priv->ops->event_period ? priv->ops->event_period : direct_event_period)(priv->ctx, fd, period);
}

int privops_setting_get(const struct privops *priv, enum privops_setting setting, uint64_t *ret)
{
	uint64_t value;
	int r = fsroot_read_u64(&priv->root, &value, 10, "%s", privops_setting_path[setting]);

	if (r < 0)
		return r;
	if (value > PRIVOPS_VALUE_MAX)
		return -ERANGE;
	*ret = value;
	return 0;
}

static int write_setting(const struct privops *priv, int setting, uint64_t value)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRIu64 "\n", value);
	return fsroot_write(&priv->root, text, "%s", privops_setting_path[setting]);
}

/*
 * What the entry is while the setting goes from @current to @value. The file says so before the setting changes, and a
 * crash may come in between, so that a @current of ours has to stay known as ours until it is gone.
 */
static struct privops_saved_entry entry_during(const struct privops_saved_entry *old, uint64_t current, uint64_t value)
{
	struct privops_saved_entry entry = { .present = true, .before = old->present ? old->before : current };

	if (old->present && privops_saved_is_ours(old, current))
		entry.after[entry.n_after++] = current;
	entry.after[entry.n_after++] = value;
	return entry;
}

int privops_setting_set(const struct privops *priv, enum privops_setting setting, uint64_t value)
{
	struct privops_saved old = { 0 }, saved;
	struct privops_saved_entry *entry;
	uint64_t current;
	int r, undone;

	if (value > PRIVOPS_VALUE_MAX)
		return -ERANGE;
	r = privops_setting_get(priv, setting, &current);
	if (r < 0)
		return r;
	if (current == value)
		return 0;
	if (priv->ops->setting_set)
		return priv->ops->setting_set(priv->ctx, setting, value);
	r = privops_saved_load(priv->saved_path, &old);
	if (r < 0 && r != -ENOENT)
		return r;
	saved = old;
	entry = &saved.entry[setting];
	*entry = entry_during(&old.entry[setting], current, value);
	r = privops_saved_store(priv->saved_path, &saved);
	if (r < 0)
		return r;
	r = write_setting(priv, setting, value);
	if (r < 0) {
		undone = privops_saved_store(priv->saved_path, &old);
		if (undone < 0)
			/* Harmless: the entry names a value that the setting doesn't have. */
			log_warning("cannot take %s back out of %s: %s; ignoring: nothing was changed",
				    privops_setting_name[setting], priv->saved_path, strerror(-undone));
		return r;
	}
	if (entry->n_after == 1)
		return 0;
	*entry = (struct privops_saved_entry){
		.present = true, .before = entry->before, .n_after = 1, .after = { value }
	};
	r = privops_saved_store(priv->saved_path, &saved);
	if (r < 0)
		log_warning("cannot bring %s up to date: %s; ignoring: it still says what to put back",
			    priv->saved_path, strerror(-r));
	return 0;
}

/* One setting of the file. true: done with, so its entry can go. */
static bool restore_setting(const struct privops *priv, int setting, const struct privops_saved_entry *entry,
			    struct privops_restored *ret)
{
	const char *name = privops_setting_name[setting];
	uint64_t current;
	int r = privops_setting_get(priv, setting, &current);

	if (r == -ENOENT) {
		ret->left++;
		log_notice("%s is not there any more; nothing to put back", name);
		return true;
	}
	if (r < 0) {
		ret->failed++;
		log_warning("cannot read %s: %s; it was %" PRIu64 " before pghotd, put it back by hand", name,
			    strerror(-r), entry->before);
		return false;
	}
	if (current == entry->before) {
		log_info("%s is %" PRIu64 ", as it was before pghotd", name, current);
		return true;
	}
	if (!privops_saved_is_ours(entry, current)) {
		ret->left++;
		log_notice("%s was %" PRIu64 " before pghotd; someone else has since set it to %" PRIu64
			   ", which stays",
			   name, entry->before, current);
		return true;
	}
	r = write_setting(priv, setting, entry->before);
	if (r < 0) {
		ret->failed++;
		log_warning("cannot put %s back: %s; run: sysctl -w %s=%" PRIu64, name, strerror(-r), name,
			    entry->before);
		return false;
	}
	ret->restored++;
	log_notice("put %s back to %" PRIu64 " (pghotd had set it to %" PRIu64 ")", name, entry->before, current);
	return true;
}

int privops_restore(const struct privops *priv, struct privops_restored *ret)
{
	struct privops_saved saved;
	int r;

	*ret = (struct privops_restored){ 0 };
	if (priv->ops->restore)
		return priv->ops->restore(priv->ctx, ret);
	r = privops_saved_load(priv->saved_path, &saved);
	if (r == -ENOENT)
		return 0;
	if (r < 0)
		return r;
	/* The reverse of the order in which the source sets them: balancing goes first, then its limit may rise. */
	for (int i = 0; i < SETTING_MAX; i++)
		if (saved.entry[i].present && restore_setting(priv, i, &saved.entry[i], ret))
			saved.entry[i].present = false;
	/* What failed stays; what was done must not: someone may want the very value that we had set. */
	return privops_saved_store(priv->saved_path, &saved);
}
