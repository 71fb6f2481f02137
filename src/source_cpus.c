/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <string.h>

#include "cleanup.h"
#include "nodeset.h"
#include "source_cpus.h"

#define WORDS (SOURCE_CPUS_MAX / 64)

static int add_cpu(void *ctx, int cpu)
{
	uint64_t *bits = ctx;

	bits[cpu / 64] |= 1ULL << (cpu % 64);
	return 0;
}

static bool has_cpu(const uint64_t *bits, int cpu)
{
	return cpu >= 0 && cpu < SOURCE_CPUS_MAX && (bits[cpu / 64] >> (cpu % 64) & 1);
}

static int parse_cpus(const char *text, uint64_t *bits)
{
	memset(bits, 0, WORDS * sizeof(*bits));
	return idlist_for_each(text, SOURCE_CPUS_MAX - 1, add_cpu, bits);
}

static int read_cpus(const struct fsroot *root, const char *name, uint64_t *bits)
{
	_cleanup_free_ char *text = NULL;
	int r = fsroot_read_alloc(root, &text, "sys/devices/system/cpu/%s", name);

	if (r < 0)
		return r;
	return parse_cpus(text, bits) < 0 ? -EIO : 0;
}

/*
 * CPUs set apart. No such file: the kernel can't do that, so there are none. Nor does it make a list when the feature
 * was not switched on at boot: nohz_full then reads "(null)".
 */
static int remove_cpus(const struct fsroot *root, const char *name, uint64_t *bits)
{
	_cleanup_free_ char *text = NULL;
	uint64_t apart[WORDS];
	int r = fsroot_read_alloc(root, &text, "sys/devices/system/cpu/%s", name);

	if (r == -ENOENT)
		return 0;
	if (r < 0)
		return r;
	if (strstr(text, "(null)"))
		return 0;
	if (parse_cpus(text, apart) < 0)
		return -EIO;
	for (int i = 0; i < WORDS; i++)
		bits[i] &= ~apart[i];
	return 0;
}

static int read_all(const struct fsroot *root, uint64_t *wanted)
{
	int r = remove_cpus(root, "isolated", wanted);

	return r < 0 ? r : remove_cpus(root, "nohz_full", wanted);
}

static int read_list(const char *spec, uint64_t *wanted)
{
	uint64_t listed[WORDS];
	int r = *spec ? parse_cpus(spec, listed) : -EINVAL;

	if (r < 0)
		return r;
	for (int i = 0; i < WORDS; i++)
		wanted[i] &= listed[i];
	return 0;
}

int source_cpus_read(const struct fsroot *root, const char *spec, struct source_cpus *ret)
{
	bool any = false;
	int r;

	ret->n_wanted = 0;
	r = read_cpus(root, "online", ret->online);
	if (r < 0)
		return r;
	r = read_cpus(root, "possible", ret->wanted);
	if (r == -ENOENT)
		memcpy(ret->wanted, ret->online, sizeof(ret->wanted));
	else if (r < 0)
		return r;
	r = strcmp(spec, "all") == 0 ? read_all(root, ret->wanted) : read_list(spec, ret->wanted);
	if (r < 0)
		return r;
	for (int i = 0; i < WORDS; i++) {
		ret->online[i] &= ret->wanted[i];
		ret->n_wanted += (size_t)__builtin_popcountll(ret->wanted[i]);
		any |= ret->online[i] != 0;
	}
	return any ? 0 : -ENODEV;
}

bool source_cpus_wants(const struct source_cpus *cpus, int cpu)
{
	return has_cpu(cpus->wanted, cpu);
}

int source_cpus_next_online(const struct source_cpus *cpus, int from)
{
	for (int cpu = from; cpu < SOURCE_CPUS_MAX; cpu++)
		if (has_cpu(cpus->online, cpu))
			return cpu;
	return -1;
}
