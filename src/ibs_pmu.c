/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cleanup.h"
#include "ibs_mprof_record.h"
#include "ibs_pmu.h"
#include "parse.h"

#define DEVICES  "sys/bus/event_source/devices"
#define TEXT_MAX 64

static const char *const names[IBS_PMU_KINDS] = {
	[IBS_PMU_OP] = "ibs_op",
	[IBS_PMU_MPROF] = "ibs_mprof",
};

static const struct {
	const char *name;
	enum ibs_pmu_caps cap;
} known_caps[] = {
	{ "zen4_ibs_extensions", IBS_PMU_ZEN4 }, { "ldlat", IBS_PMU_LDLAT },
	{ "dtlb_pgsize", IBS_PMU_DTLB_PGSIZE },  { "strmst", IBS_PMU_STRMST },
	{ "rmtsocket", IBS_PMU_RMTSOCKET },
};

/* What pghotd may ask for; a unit with other fields is as good. */
static const char *const used_fields[] = { "cnt_ctl", "l3missonly", "ldlat", "swfilt" };

static const struct {
	const char *name, *text;
} mprof_formats[] = {
#define FORMAT(name, text) { name, text },
	IBS_MPROF_FORMATS(FORMAT)
#undef FORMAT
};

static const char *const mprof_caps[] = {
#define CAP(name) name,
	IBS_MPROF_CAPS(CAP)
#undef CAP
};

#define N(array) (sizeof(array) / sizeof((array)[0]))

const char *ibs_pmu_name(unsigned int kind)
{
	return kind < IBS_PMU_KINDS ? names[kind] : NULL;
}

/* What is being read, and what was found wrong with it: the first is told, the others are counted. */
struct reading {
	const struct fsroot *root;
	struct ibs_pmu *pmu;
	char *why;
	int r;        /* what to return for what is wrong, once it must be refused */
	int findings; /* what isn't as we know it */
};

__attribute__((format(printf, 2, 3))) static void find(struct reading *reading, const char *fmt, ...)
{
	va_list ap;

	if (reading->findings++ > 0)
		return;
	va_start(ap, fmt);
	vsnprintf(reading->why, IBS_WHY_MAX, fmt, ap);
	va_end(ap);
}

/* A number at the front of @text, of up to three digits; @text goes behind it. -1: there is none. */
static int take_number(const char **text)
{
	int v = 0, digits = 0;

	while (**text >= '0' && **text <= '9' && digits++ < 3)
		v = v * 10 + *(*text)++ - '0';
	return digits ? v : -1;
}

int ibs_field_parse(const char *text, struct ibs_field *ret)
{
	struct ibs_field field = { 0 };
	uint64_t seen = 0;

	if (strncmp(text, "config", strlen("config")) != 0)
		return -EINVAL;
	text += strlen("config");
	if (*text >= '1' && *text < '0' + IBS_CONFIG_MAX)
		field.word = (uint8_t)(*text++ - '0');
	do {
		int first, last;
		uint64_t mask;

		text++; /* ':' or ',' */
		if (text[-1] != (field.n_ranges ? ',' : ':') || field.n_ranges == IBS_RANGES_MAX)
			return -EINVAL;
		last = first = take_number(&text);
		if (*text == '-') {
			text++;
			last = take_number(&text);
		}
		if (first < 0 || last < first || last > 63)
			return -EINVAL;
		mask = UINT64_MAX >> (63 - (last - first)) << first;
		if (seen & mask)
			return -EINVAL;
		seen |= mask;
		field.ranges[field.n_ranges].first = (uint8_t)first;
		field.ranges[field.n_ranges++].last = (uint8_t)last;
	} while (*text);
	memcpy(field.name, ret->name, sizeof(field.name));
	*ret = field;
	return 0;
}

const struct ibs_field *ibs_pmu_field(const struct ibs_pmu *pmu, const char *name)
{
	for (size_t i = 0; i < pmu->n_fields; i++)
		if (strcmp(pmu->fields[i].name, name) == 0)
			return &pmu->fields[i];
	return NULL;
}

int ibs_pmu_set_field(const struct ibs_pmu *pmu, struct ibs_config *config, const char *name, uint64_t value)
{
	const struct ibs_field *field = ibs_pmu_field(pmu, name);
	uint64_t word;

	if (!field)
		return -ENOENT;
	word = config->word[field->word];
	for (unsigned int i = 0; i < field->n_ranges; i++) {
		unsigned int first = field->ranges[i].first, width = field->ranges[i].last - first + 1;
		uint64_t ones = UINT64_MAX >> (64 - width);

		word = (word & ~(ones << first)) | (value & ones) << first;
		value = width < 64 ? value >> width : 0;
	}
	if (value)
		return -ERANGE;
	config->word[field->word] = word;
	return 0;
}

static bool is_used(const char *name)
{
	for (size_t i = 0; i < N(used_fields); i++)
		if (strcmp(used_fields[i], name) == 0)
			return true;
	return false;
}

/* Is it what the stand-in header says? */
static bool is_mprof_format(const char *name, const char *text)
{
	for (size_t i = 0; i < N(mprof_formats); i++)
		if (strcmp(mprof_formats[i].name, name) == 0)
			return strcmp(mprof_formats[i].text, text) == 0;
	return false;
}

static int read_format(void *ctx, const char *name)
{
	struct reading *reading = ctx;
	struct ibs_pmu *pmu = reading->pmu;
	const char *device = names[pmu->kind];
	struct ibs_field field = { 0 };
	char text[TEXT_MAX];
	int r = fsroot_read(reading->root, text, sizeof(text), DEVICES "/%s/format/%s", device, name);

	if (r == -ENOENT)
		return 0;
	if (r < 0 && r != -EFBIG)
		return r;
	if (r < 0)
		text[0] = '\0';
	if (pmu->kind == IBS_PMU_MPROF && !is_mprof_format(name, text)) {
		find(reading, "%s shows format/%.31s = \"%.63s\", which is none that pghotd knows of it", device, name,
		     text);
		return 0;
	}
	if (strlen(name) >= sizeof(field.name) || ibs_field_parse(text, &field) < 0) {
		find(reading, "%s shows format/%.31s = \"%.63s\", which pghotd doesn't understand", device, name, text);
		/* What we have no use for may be as it likes. */
		if (is_used(name))
			reading->r = -EBADMSG;
		return 0;
	}
	if (pmu->n_fields == IBS_FIELDS_MAX) {
		find(reading, "%s shows more than %d formats", device, IBS_FIELDS_MAX);
		reading->r = -EBADMSG;
		return 1;
	}
	strcpy(field.name, name);
	pmu->fields[pmu->n_fields++] = field;
	return 0;
}

static int read_cap(void *ctx, const char *name)
{
	struct reading *reading = ctx;
	struct ibs_pmu *pmu = reading->pmu;
	const char *device = names[pmu->kind];
	bool is_known = pmu->kind != IBS_PMU_MPROF;
	uint32_t cap = IBS_PMU_CAPS_UNKNOWN;
	char text[TEXT_MAX];
	int r = fsroot_read(reading->root, text, sizeof(text), DEVICES "/%s/caps/%s", device, name);

	if (r == -ENOENT)
		return 0;
	if (r < 0 && r != -EFBIG)
		return r;
	if (r < 0)
		text[0] = '\0';
	for (size_t i = 0; i < N(known_caps); i++)
		if (strcmp(known_caps[i].name, name) == 0)
			cap = known_caps[i].cap;
	for (size_t i = 0; i < N(mprof_caps) && !is_known; i++)
		is_known = strcmp(mprof_caps[i], name) == 0 && strcmp(text, "1") == 0;
	if (!is_known)
		find(reading, "%s shows caps/%.31s = \"%.63s\", which is none that pghotd knows of it", device, name,
		     text);
	if (strcmp(text, "1") == 0)
		pmu->caps |= cap;
	return 0;
}

/* Its folders, either of which may be missing. */
static int read_folders(struct reading *reading)
{
	const char *device = names[reading->pmu->kind];
	int r = fsroot_for_each(reading->root, read_format, reading, DEVICES "/%s/format", device);

	if (r < 0 && r != -ENOENT)
		return r;
	r = fsroot_for_each(reading->root, read_cap, reading, DEVICES "/%s/caps", device);
	return r < 0 && r != -ENOENT ? r : 0;
}

int ibs_pmu_read(const struct fsroot *root, enum ibs_pmu_kind kind, struct ibs_pmu *ret, char *why)
{
	struct reading reading = { .root = root, .pmu = ret, .why = why };
	const char *device = names[kind];
	uint64_t type;
	int r;

	why[0] = '\0';
	memset(ret, 0, sizeof(*ret));
	ret->kind = kind;
	r = fsroot_read_u64(root, &type, 10, DEVICES "/%s/type", device);
	if (r == -ENOENT || r == -ENOTDIR) {
		if (kind == IBS_PMU_OP)
			ibs_pmu_absent(root, why);
		else
			snprintf(why, IBS_WHY_MAX,
				 "no perf unit %s here: Zen 6 has the profiler, and no kernel is known that shows it; "
				 "ibs.pmu = \"auto\" takes what there is",
				 device);
		return -ENOENT;
	}
	if (r == -EINVAL || r == -ERANGE || (r == 0 && type > UINT32_MAX)) {
		snprintf(why, IBS_WHY_MAX, "the type of perf unit %s is no number that perf could have given it",
			 device);
		return -EBADMSG;
	}
	if (r == 0) {
		ret->type = (uint32_t)type;
		r = read_folders(&reading);
	}
	if (r < 0) {
		snprintf(why, IBS_WHY_MAX, "cannot read what perf unit %s is like: %s", device, strerror(-r));
		return r;
	}
	if (kind != IBS_PMU_MPROF)
		return reading.r;
	if (!ibs_pmu_field(ret, "cnt_ctl"))
		find(&reading, "%s shows no format/cnt_ctl as pghotd knows it", device);
	if (reading.findings > 1) {
		size_t n = strlen(why);

		snprintf(why + n, IBS_WHY_MAX - n, ", and %d more", reading.findings - 1);
	}
	return reading.findings ? -ENOTSUP : 0;
}

int ibs_pmu_find(const struct fsroot *root, const char *wanted, struct ibs_pmu *ret, char *why)
{
	char profiler[IBS_WHY_MAX];
	size_t n;
	int r;

	for (unsigned int kind = 0; kind < IBS_PMU_KINDS; kind++)
		if (strcmp(wanted, names[kind]) == 0)
			return ibs_pmu_read(root, kind, ret, why);
	if (strcmp(wanted, "auto") != 0) {
		snprintf(why, IBS_WHY_MAX, "there is no IBS unit \"%.40s\": \"auto\", \"ibs_op\" or \"ibs_mprof\"",
			 wanted);
		return -EINVAL;
	}
	r = ibs_pmu_read(root, IBS_PMU_MPROF, ret, why);
	if (r == 0)
		return 0;
	if (r == -ENOENT)
		return ibs_pmu_read(root, IBS_PMU_OP, ret, why);
	memcpy(profiler, why, sizeof(profiler));
	r = ibs_pmu_read(root, IBS_PMU_OP, ret, why);
	/* Its own trouble, if there is any, is the one to tell. */
	n = strlen(why);
	if (r == 0 && n == 0)
		snprintf(why, IBS_WHY_MAX, "ibs_op instead of the profiler: %.200s", profiler);
	return r;
}

/* The number behind the first "@key<blanks>: " of @text, or 0. */
static unsigned int cpuinfo_number(const char *text, const char *key)
{
	size_t n = strlen(key);

	for (const char *line = text; line; line = strchr(line, '\n')) {
		unsigned int v;

		line += *line == '\n';
		if (strncmp(line, key, n) != 0)
			continue;
		line += n + strspn(line + n, " \t");
		if (*line == ':' && sscanf(line, ": %u", &v) == 1)
			return v;
	}
	return 0;
}

int ibs_pmu_machine(const struct fsroot *root, struct ibs_decoder_params *ret)
{
	_cleanup_free_ char *text = NULL;
	int r = fsroot_read_alloc(root, &text, "proc/cpuinfo");

	ret->family = ret->model = ret->physical_bits = 0;
	if (r < 0)
		return r;
	ret->family = cpuinfo_number(text, "cpu family");
	ret->model = cpuinfo_number(text, "model");
	ret->physical_bits = cpuinfo_number(text, "address sizes");
	return ret->family && ret->physical_bits ? 0 : -EBADMSG;
}
