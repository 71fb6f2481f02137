/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ibs_pmu: which IBS unit this machine shows through perf, and what can be asked of it, by sysfs: the kernel's word for
 * where a bit of attr.config is, so that a kernel that moves one is followed. Main thread, except where it says so.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fsroot.h"
#include "ibs_decode.h"

#define IBS_FIELDS_MAX  32
#define IBS_RANGES_MAX  8
#define IBS_NAME_MAX    32
#define IBS_WHY_MAX     256 /* of every @why here; as SOURCE_WHY_MAX */
#define IBS_CONFIG_MAX  3   /* attr.config, config1, config2 */
#define IBS_PERIOD_UNIT 16  /* hardware counts in these */

/* One file of format/: bits of one word of the attr, lowest bit of a value first. */
struct ibs_field {
	char name[IBS_NAME_MAX];
	uint8_t word; /* 0..IBS_CONFIG_MAX - 1 */
	uint8_t n_ranges;
	struct {
		uint8_t first, last; /* 0..63 */
	} ranges[IBS_RANGES_MAX];
};

/* Files of caps/ that read "1"; kernels differ in which they show. */
enum ibs_pmu_caps {
	IBS_PMU_ZEN4 = 1 << 0,         /* zen4_ibs_extensions */
	IBS_PMU_LDLAT = 1 << 1,        /* ldlat */
	IBS_PMU_DTLB_PGSIZE = 1 << 2,  /* dtlb_pgsize: the record has the page size */
	IBS_PMU_STRMST = 1 << 3,       /* strmst */
	IBS_PMU_RMTSOCKET = 1 << 4,    /* rmtsocket */
	IBS_PMU_CAPS_UNKNOWN = 1 << 5, /* some other */
};

/* Plain value. */
struct ibs_pmu {
	enum ibs_pmu_kind kind;
	uint32_t type; /* attr.type */
	uint32_t caps; /* enum ibs_pmu_caps */
	size_t n_fields;
	struct ibs_field fields[IBS_FIELDS_MAX]; /* in no order */
};

/* Words of an attr to be. */
struct ibs_config {
	uint64_t word[IBS_CONFIG_MAX];
};

/* "ibs_op", "ibs_mprof". NULL for what is no enum ibs_pmu_kind. Any thread. */
const char *ibs_pmu_name(unsigned int kind);

/*
 * Parse a format ("config:19", "config1:0-11", "config:0-7,32-35") into @ret, but for its name. 0; -EINVAL when it is
 * none: unknown word, a bit over 63, a range backwards, a bit twice, more than IBS_RANGES_MAX ranges. @ret is not
 * touched then. Any thread.
 */
int ibs_field_parse(const char *text, struct ibs_field *ret);

/*
 * Read one unit. 0; -ENOENT when the machine has none; -EBADMSG when its type is no number, or a format that pghotd
 * uses can't be understood; -ENOTSUP for an ibs_mprof that isn't what ibs_mprof_record.h says; or what reading gave.
 * All but 0 say so in @why, with what was found; after 0 it is "", or tells what of ibs_op wasn't understood and is
 * left alone.
 */
int ibs_pmu_read(const struct fsroot *root, enum ibs_pmu_kind kind, struct ibs_pmu *ret, char *why);

/*
 * The unit by @wanted: "ibs_op", "ibs_mprof", or "auto": the profiler, which leaves ibs_op to others, or if there is
 * none that we know, ibs_op; @why then tells what is wrong with the profiler. Returns as ibs_pmu_read(), for "auto" of
 * ibs_op; -EINVAL for another name.
 */
int ibs_pmu_find(const struct fsroot *root, const char *wanted, struct ibs_pmu *ret, char *why);

/* NULL when it has no such field. Any thread. */
const struct ibs_field *ibs_pmu_field(const struct ibs_pmu *pmu, const char *name);

/*
 * Set @name to @value by its format; bits that it had before are gone. 0; -ENOENT when the unit has no such field;
 * -ERANGE when the field is too narrow, nothing being set. Any thread.
 */
int ibs_pmu_set_field(const struct ibs_pmu *pmu, struct ibs_config *config, const char *name, uint64_t value);

/*
 * What ibs_decoder_params must know of the machine, from /proc/cpuinfo: family, model and physical_bits of the first
 * CPU; others of @ret stay. 0; -EBADMSG when it doesn't say (0 then stands for it), or what reading gave.
 */
int ibs_pmu_machine(const struct fsroot *root, struct ibs_decoder_params *ret);

/* Why there is no ibs_op, and what would change that: a line for people into @why (IBS_WHY_MAX bytes). */
void ibs_pmu_absent(const struct fsroot *root, char *why);

/*
 * What pghot/enabled_sources in debugfs says: bits. 0, -ENOENT or what else reading gave. Only root may look there, so
 * a daemon without its rights asks, see fsroot_ask(), and a number beyond INT32_MAX comes as that.
 */
int ibs_pmu_pghot_debugfs(const struct fsroot *root, uint64_t *ret);

enum ibs_pghot {
	IBS_PGHOT_NONE,   /* this kernel doesn't promote by pghot */
	IBS_PGHOT_IDLE,   /* it could, but its sources are off */
	IBS_PGHOT_ACTIVE, /* it does, or may do so: both it and we would promote */
};

/* Does the kernel run hot-page promotion of its own (vm.pghot_*)? @why says what was found and what to do. */
enum ibs_pghot ibs_pmu_pghot(const struct fsroot *root, char *why);
