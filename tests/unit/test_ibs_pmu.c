/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>

#include "harness.h"
#include "ibs_pmu.h"
#include "machine.h"

#define OP      "sys/bus/event_source/devices/ibs_op/"
#define MPROF   "sys/bus/event_source/devices/ibs_mprof/"
#define SYSCTL  "proc/sys/vm/pghot_enabled_sources"
#define DEBUGFS "sys/kernel/debug/pghot/enabled_sources"

static char why[IBS_WHY_MAX];
static struct ibs_pmu pmu;

/* Whole, and with these words. */
static bool says(const char *word1, const char *word2)
{
	bool well = strlen(why) < IBS_WHY_MAX - 1 && strstr(why, word1) && strstr(why, word2);

	if (!well)
		printf("  \"%s\" lacks \"%s\" or \"%s\"\n", why, word1, word2);
	return well;
}

static int read_pmu(const struct machine *m, enum ibs_pmu_kind kind)
{
	memset(why, 'x', sizeof(why));
	memset(&pmu, 0xA5, sizeof(pmu));
	return ibs_pmu_read(&m->root, kind, &pmu, why);
}

static int find(const struct machine *m, const char *wanted)
{
	memset(why, 'x', sizeof(why));
	memset(&pmu, 0xA5, sizeof(pmu));
	return ibs_pmu_find(&m->root, wanted, &pmu, why);
}

/* Why there is none, by what /proc/cpuinfo says of the CPU. */
static void why_absent(void)
{
	static const struct {
		const char *cpuinfo, *word1, *word2;
	} cpus[] = {
		{ NULL, "AMD's CPUs have it", "host must pass it through" },
		{ "vendor_id\t: AuthenticAMD\nflags\t\t: fpu ibs svm\n", "although the CPU has IBS", "dmesg" },
		{ "vendor_id\t: AuthenticAMD\nflags\t\t: fpu svm ibs\n", "although the CPU has IBS", "dmesg" },
		{ "vendor_id\t: AuthenticAMD\nflags\t\t: fpu svm\n", "firmware", "" },
		/* Words that only hold it, and flags of something else. */
		{ "vendor_id\t: AuthenticAMD\nflags\t\t: fpu ibss xibs\nbugs\t\t: ibs ibs \n", "firmware", "" },
		{ "vendor_id\t: AuthenticAMD\nflags\t\t: fpu hypervisor\n", "host passes IBS through", "virtual" },
		{ "vendor_id\t: GenuineIntel\nflags\t\t: fpu hypervisor\n", "Intel", "hint_faults" },
		{ "vendor_id\t: GenuineOther\nflags\t\t: hypervisor\n", "host passes IBS through", "hint_faults" },
		{ "", "AMD's CPUs have it", "" },
	};

	for (size_t i = 0; i < sizeof(cpus) / sizeof(cpus[0]); i++) {
		struct machine m;

		machine_new(&m);
		if (cpus[i].cpuinfo)
			machine_put(&m, "proc/cpuinfo", "%s", cpus[i].cpuinfo);
		CU_ASSERT_EQUAL(find(&m, "auto"), -ENOENT);
		CU_ASSERT_TRUE(says("no perf unit ibs_op", cpus[i].word1));
		CU_ASSERT_TRUE(says(cpus[i].word2, ""));
		machine_free(&m);
	}
}

/* What kernels show of ibs_op on these; each is the one before and more. */
enum generation { ZEN2, ZEN4_6_1, ZEN4_6_14, ZEN5_6_15, ZEN6_7_1 };

static void put_op(const struct machine *m, enum generation g)
{
	machine_put(m, OP "type", "11");
	machine_put(m, OP "perf_event_mux_interval_ms", "4");
	machine_put(m, OP "format/cnt_ctl", "config:19");
	if (g >= ZEN4_6_1) {
		machine_put(m, OP "format/l3missonly", "config:16");
		machine_put(m, OP "caps/zen4_ibs_extensions", "1");
	}
	if (g >= ZEN4_6_14)
		machine_put(m, OP "format/swfilt", "config2:0");
	if (g >= ZEN5_6_15) {
		machine_put(m, OP "format/ldlat", "config1:0-11");
		machine_put(m, OP "caps/ldlat", "1");
		machine_put(m, OP "caps/dtlb_pgsize", "1");
	}
	if (g >= ZEN6_7_1) {
		machine_put(m, OP "format/strmst", "config1:12");
		machine_put(m, OP "caps/strmst", "1");
		machine_put(m, OP "caps/rmtsocket", "1");
	}
}

static void put_mprof(const struct machine *m)
{
	machine_put(m, MPROF "type", "12");
	machine_put(m, MPROF "format/cnt_ctl", "config:19");
	machine_put(m, MPROF "format/l3missonly", "config:16");
	machine_put(m, MPROF "format/swfilt", "config2:0");
	machine_put(m, MPROF "caps/zen4_ibs_extensions", "1");
	machine_put(m, MPROF "caps/dtlb_pgsize", "1");
}

static void parse_formats(void)
{
	static const struct {
		const char *text;
		struct ibs_field want;
	} good[] = {
		{ "config:19", { .word = 0, .n_ranges = 1, .ranges = { { 19, 19 } } } },
		{ "config1:0-11", { .word = 1, .n_ranges = 1, .ranges = { { 0, 11 } } } },
		{ "config2:0", { .word = 2, .n_ranges = 1, .ranges = { { 0, 0 } } } },
		{ "config:0-63", { .word = 0, .n_ranges = 1, .ranges = { { 0, 63 } } } },
		{ "config:0-7,32-35", { .word = 0, .n_ranges = 2, .ranges = { { 0, 7 }, { 32, 35 } } } },
		{ "config:21,0-7,63", { .word = 0, .n_ranges = 3, .ranges = { { 21, 21 }, { 0, 7 }, { 63, 63 } } } },
		{ "config:7,6,5,4,3,2,1,0",
		  { .word = 0,
		    .n_ranges = 8,
		    .ranges = { { 7, 7 }, { 6, 6 }, { 5, 5 }, { 4, 4 }, { 3, 3 }, { 2, 2 }, { 1, 1 }, { 0, 0 } } } },
	};
	static const char *const bad[] = {
		"",
		"config",
		"config:",
		"config:64",
		"config:0-64",
		"config:5-4",
		"config:0,0",
		"config:0-7,7",
		"config:0-",
		"config:-5",
		"config: 5",
		"config:5 ",
		"config:+5",
		"config:0x5",
		"config3:0",
		"config9:0",
		"config10:0",
		"Config:0",
		"config0:0",
		"konfig:0",
		"config:5,",
		"config,5",
		"config:5:6",
		"config:1000",
		"config:0,1,2,3,4,5,6,7,8",
		"event=0x5",
		"config:5-6-7",
		"1",
	};
	struct ibs_field field, before;

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		memset(&field, 0, sizeof(field));
		strcpy(field.name, "mine");
		CU_ASSERT_EQUAL(ibs_field_parse(good[i].text, &field), 0);
		CU_ASSERT_STRING_EQUAL(field.name, "mine");
		CU_ASSERT_EQUAL(field.word, good[i].want.word);
		CU_ASSERT_EQUAL(field.n_ranges, good[i].want.n_ranges);
		CU_ASSERT_EQUAL(memcmp(field.ranges, good[i].want.ranges, sizeof(field.ranges)), 0);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		memset(&field, 0xA5, sizeof(field));
		before = field;
		if (ibs_field_parse(bad[i], &field) != -EINVAL)
			printf("  \"%s\" was taken\n", bad[i]);
		CU_ASSERT_EQUAL(ibs_field_parse(bad[i], &field), -EINVAL);
		CU_ASSERT_EQUAL(memcmp(&field, &before, sizeof(field)), 0);
	}
}

/* Any text: an error, or what is written as it was. */
static void parse_anything(void)
{
	static const char letters[] = "config:,-0123456789 ";
	uint32_t seed = 1;
	int taken = 0;

	for (int i = 0; i < 200000; i++) {
		char text[24] = "config:", *p = text + (i % 2 ? 7 : 0);
		struct ibs_field field = { 0 };
		uint64_t seen = 0;

		for (int n = i % 12; n > 0; n--) {
			seed = seed * 1664525 + 1013904223;
			*p++ = letters[(seed >> 16) % (sizeof(letters) - 1)];
		}
		*p = '\0';
		if (ibs_field_parse(text, &field) < 0)
			continue;
		taken++;
		CU_ASSERT(field.n_ranges >= 1 && field.n_ranges <= IBS_RANGES_MAX && field.word < IBS_CONFIG_MAX);
		for (int r = 0; r < field.n_ranges; r++)
			for (int n = field.ranges[r].first; n <= field.ranges[r].last; n++) {
				CU_ASSERT(n < 64 && !(seen >> n & 1));
				seen |= 1ULL << n;
			}
	}
	CU_ASSERT(taken > 100);
}

static void set_fields(void)
{
	struct ibs_config config = { .word = { UINT64_MAX, 0, 7 } }, before;

	memset(&pmu, 0, sizeof(pmu));
	pmu.n_fields = 4;
	ibs_field_parse("config:0-7,32-35", &pmu.fields[0]);
	strcpy(pmu.fields[0].name, "event");
	ibs_field_parse("config1:60-63,0-3", &pmu.fields[1]);
	strcpy(pmu.fields[1].name, "turned");
	ibs_field_parse("config2:0-63", &pmu.fields[2]);
	strcpy(pmu.fields[2].name, "all");
	ibs_field_parse("config:19", &pmu.fields[3]);
	strcpy(pmu.fields[3].name, "one");
	CU_ASSERT_EQUAL(ibs_pmu_set_field(&pmu, &config, "event", 0xabc), 0);
	CU_ASSERT_EQUAL(config.word[0], 0xfffffffaffffffbc);
	CU_ASSERT_EQUAL(ibs_pmu_set_field(&pmu, &config, "event", 0), 0);
	CU_ASSERT_EQUAL(config.word[0], 0xfffffff0ffffff00);
	CU_ASSERT_EQUAL(ibs_pmu_set_field(&pmu, &config, "turned", 0x5a), 0);
	CU_ASSERT_EQUAL(config.word[1], 0xa000000000000005);
	CU_ASSERT_EQUAL(ibs_pmu_set_field(&pmu, &config, "all", UINT64_MAX - 1), 0);
	CU_ASSERT_EQUAL(config.word[2], UINT64_MAX - 1);
	CU_ASSERT_EQUAL(ibs_pmu_set_field(&pmu, &config, "one", 0), 0);
	CU_ASSERT_EQUAL(config.word[0], 0xfffffff0fff7ff00);
	before = config;
	CU_ASSERT_EQUAL(ibs_pmu_set_field(&pmu, &config, "event", 0x1000), -ERANGE);
	CU_ASSERT_EQUAL(ibs_pmu_set_field(&pmu, &config, "one", 2), -ERANGE);
	CU_ASSERT_EQUAL(ibs_pmu_set_field(&pmu, &config, "turned", 1ULL << 63), -ERANGE);
	CU_ASSERT_EQUAL(ibs_pmu_set_field(&pmu, &config, "none", 0), -ENOENT);
	CU_ASSERT_EQUAL(memcmp(&config, &before, sizeof(config)), 0);
}

static void generations(void)
{
	static const uint32_t caps[] = {
		0,
		IBS_PMU_ZEN4,
		IBS_PMU_ZEN4,
		IBS_PMU_ZEN4 | IBS_PMU_LDLAT | IBS_PMU_DTLB_PGSIZE,
		IBS_PMU_ZEN4 | IBS_PMU_LDLAT | IBS_PMU_DTLB_PGSIZE | IBS_PMU_STRMST | IBS_PMU_RMTSOCKET,
	};
	static const size_t fields[] = { 1, 2, 3, 4, 5 };

	for (enum generation g = ZEN2; g <= ZEN6_7_1; g++) {
		struct machine m;

		machine_new(&m);
		put_op(&m, g);
		CU_ASSERT_EQUAL(read_pmu(&m, IBS_PMU_OP), 0);
		CU_ASSERT_STRING_EQUAL(why, "");
		CU_ASSERT_EQUAL(pmu.kind, IBS_PMU_OP);
		CU_ASSERT_EQUAL(pmu.type, 11);
		CU_ASSERT_EQUAL(pmu.caps, caps[g]);
		CU_ASSERT_EQUAL(pmu.n_fields, fields[g]);
		CU_ASSERT_PTR_NOT_NULL(ibs_pmu_field(&pmu, "cnt_ctl"));
		CU_ASSERT_EQUAL(ibs_pmu_field(&pmu, "l3missonly") != NULL, g >= ZEN4_6_1);
		CU_ASSERT_EQUAL(ibs_pmu_field(&pmu, "swfilt") != NULL, g >= ZEN4_6_14);
		CU_ASSERT_EQUAL(ibs_pmu_field(&pmu, "ldlat") != NULL, g >= ZEN5_6_15);
		CU_ASSERT_EQUAL(find(&m, "auto"), 0);
		CU_ASSERT_EQUAL(pmu.kind, IBS_PMU_OP);
		CU_ASSERT_STRING_EQUAL(why, "");
		CU_ASSERT_EQUAL(find(&m, "ibs_mprof"), -ENOENT);
		CU_ASSERT_TRUE(says("no perf unit", "ibs_mprof"));
		machine_free(&m);
	}
}

static void a_kernel_that_moves_a_bit(void)
{
	struct ibs_config config = { 0 };
	struct machine m;

	machine_new(&m);
	put_op(&m, ZEN5_6_15);
	machine_put(&m, OP "format/l3missonly", "config1:40");
	CU_ASSERT_EQUAL(read_pmu(&m, IBS_PMU_OP), 0);
	CU_ASSERT_EQUAL(ibs_pmu_set_field(&pmu, &config, "l3missonly", 1), 0);
	CU_ASSERT_EQUAL(config.word[0], 0);
	CU_ASSERT_EQUAL(config.word[1], 1ULL << 40);
	machine_free(&m);
}

static void no_ibs_at_all(void)
{
	struct machine m;

	machine_new(&m);
	CU_ASSERT_EQUAL(find(&m, "auto"), -ENOENT);
	CU_ASSERT_TRUE(says("no perf unit", "ibs_op"));
	CU_ASSERT_EQUAL(find(&m, "ibs_op"), -ENOENT);
	CU_ASSERT_EQUAL(find(&m, "cpu"), -EINVAL);
	CU_ASSERT_TRUE(says("\"cpu\"", "ibs_mprof"));
	CU_ASSERT_EQUAL(find(&m, ""), -EINVAL);
	machine_free(&m);
	CU_ASSERT_STRING_EQUAL(ibs_pmu_name(IBS_PMU_OP), "ibs_op");
	CU_ASSERT_STRING_EQUAL(ibs_pmu_name(IBS_PMU_MPROF), "ibs_mprof");
	CU_ASSERT_PTR_NULL(ibs_pmu_name(IBS_PMU_KINDS));
}

static void broken_trees(void)
{
	static const char *const types[] = { "", "x", "-1", "4294967296", "99999999999999999999", "11 12", "0x11" };
	struct machine m;

	machine_new(&m);
	put_op(&m, ZEN5_6_15);
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		machine_put(&m, OP "type", "%s", types[i]);
		CU_ASSERT_EQUAL(read_pmu(&m, IBS_PMU_OP), -EBADMSG);
		CU_ASSERT_TRUE(says("type", "ibs_op"));
	}
	machine_put(&m, OP "type", "4294967295");
	CU_ASSERT_EQUAL(read_pmu(&m, IBS_PMU_OP), 0);
	CU_ASSERT_EQUAL(pmu.type, UINT32_MAX);
	/* What we would use. */
	machine_put(&m, OP "format/ldlat", "config1:11-0");
	CU_ASSERT_EQUAL(read_pmu(&m, IBS_PMU_OP), -EBADMSG);
	CU_ASSERT_TRUE(says("format/ldlat", "config1:11-0"));
	CU_ASSERT_EQUAL(find(&m, "auto"), -EBADMSG);
	machine_put(&m, OP "format/ldlat", "config1:0-11");
	/* What we wouldn't: left alone, and said. */
	machine_put(&m, OP "format/novelty", "config7:0-3@5");
	CU_ASSERT_EQUAL(read_pmu(&m, IBS_PMU_OP), 0);
	CU_ASSERT_TRUE(says("format/novelty", "config7:0-3@5"));
	CU_ASSERT_EQUAL(pmu.n_fields, 4);
	machine_put(&m, OP "format/novelty", "config:%0200d", 5);
	CU_ASSERT_EQUAL(read_pmu(&m, IBS_PMU_OP), 0);
	CU_ASSERT_TRUE(says("format/novelty", "doesn't understand"));
	machine_remove(&m, OP "format/novelty");
	machine_put(&m, OP "format/a_field_with_a_name_longer_than_any", "config:1");
	CU_ASSERT_EQUAL(read_pmu(&m, IBS_PMU_OP), 0);
	CU_ASSERT_TRUE(says("format/a_field", "config:1"));
	machine_remove(&m, OP "format/a_field_with_a_name_longer_than_any");
	/* A capability that is off, or unheard of. */
	machine_put(&m, OP "caps/dtlb_pgsize", "0");
	machine_put(&m, OP "caps/novelty", "1");
	CU_ASSERT_EQUAL(read_pmu(&m, IBS_PMU_OP), 0);
	CU_ASSERT_EQUAL(pmu.caps, IBS_PMU_ZEN4 | IBS_PMU_LDLAT | IBS_PMU_CAPS_UNKNOWN);
	for (int i = 0; i < IBS_FIELDS_MAX + 1; i++) {
		char path[128];

		snprintf(path, sizeof(path), OP "format/f%d", i);
		machine_put(&m, path, "config:%d", i);
	}
	CU_ASSERT_EQUAL(read_pmu(&m, IBS_PMU_OP), -EBADMSG);
	machine_free(&m);
	/* No folders at all. */
	machine_new(&m);
	machine_put(&m, OP "type", "8");
	CU_ASSERT_EQUAL(read_pmu(&m, IBS_PMU_OP), 0);
	CU_ASSERT_EQUAL(pmu.n_fields, 0);
	CU_ASSERT_EQUAL(pmu.caps, 0);
	/* A file where a folder should be. */
	machine_put(&m, OP "format", "x");
	CU_ASSERT_EQUAL(read_pmu(&m, IBS_PMU_OP), -ENOTDIR);
	CU_ASSERT_TRUE(says("cannot read", "ibs_op"));
	machine_free(&m);
}

static void the_profiler_we_know(void)
{
	struct machine m;

	machine_new(&m);
	put_op(&m, ZEN6_7_1);
	put_mprof(&m);
	CU_ASSERT_EQUAL(find(&m, "auto"), 0);
	CU_ASSERT_EQUAL(pmu.kind, IBS_PMU_MPROF);
	CU_ASSERT_EQUAL(pmu.type, 12);
	CU_ASSERT_STRING_EQUAL(why, "");
	CU_ASSERT_EQUAL(find(&m, "ibs_mprof"), 0);
	CU_ASSERT_EQUAL(pmu.kind, IBS_PMU_MPROF);
	CU_ASSERT_EQUAL(find(&m, "ibs_op"), 0);
	CU_ASSERT_EQUAL(pmu.kind, IBS_PMU_OP);
	machine_put(&m, MPROF "format/ldlat", "config1:0-11");
	machine_put(&m, MPROF "format/strmst", "config1:12");
	machine_put(&m, MPROF "caps/ldlat", "1");
	CU_ASSERT_EQUAL(find(&m, "auto"), 0);
	CU_ASSERT_EQUAL(pmu.kind, IBS_PMU_MPROF);
	machine_free(&m);
}

/* Refused with what was found, and "auto" goes on with ibs_op and says so. */
static void profilers_we_dont_know(void)
{
	static const struct {
		const char *path, *text, *word;
	} cases[] = {
		{ MPROF "format/cnt_ctl", "config:20", "config:20" },
		{ MPROF "format/l3missonly", "config:16,17", "config:16,17" },
		{ MPROF "format/novelty", "config:30", "format/novelty" },
		{ MPROF "format/swfilt", "rubbish", "rubbish" },
		{ MPROF "caps/novelty", "1", "caps/novelty" },
		{ MPROF "caps/dtlb_pgsize", "2", "caps/dtlb_pgsize" },
		{ MPROF "format/cnt_ctl", NULL, "no format/cnt_ctl" },
		{ MPROF "type", "none", "type" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct machine m;
		int r;

		machine_new(&m);
		put_mprof(&m);
		if (cases[i].text)
			machine_put(&m, cases[i].path, "%s", cases[i].text);
		else
			machine_remove(&m, cases[i].path);
		r = find(&m, "ibs_mprof");
		CU_ASSERT_EQUAL(r, strstr(cases[i].path, "type") ? -EBADMSG : -ENOTSUP);
		CU_ASSERT_TRUE(says(cases[i].word, "ibs_mprof"));
		CU_ASSERT_EQUAL(find(&m, "auto"), -ENOENT);
		CU_ASSERT_TRUE(says("no perf unit", "ibs_op"));
		put_op(&m, ZEN6_7_1);
		CU_ASSERT_EQUAL(find(&m, "auto"), 0);
		CU_ASSERT_EQUAL(pmu.kind, IBS_PMU_OP);
		CU_ASSERT_TRUE(says("ibs_op instead", cases[i].word));
		machine_free(&m);
	}
}

static void several_findings_are_counted(void)
{
	struct machine m;

	machine_new(&m);
	put_mprof(&m);
	machine_put(&m, MPROF "format/cnt_ctl", "config:%s",
		    "a text that is as long as can be read, and then some more of it");
	machine_put(&m, MPROF "format/one_that_has_a_very_long_name_indeed", "config:1");
	machine_put(&m, MPROF "caps/two", "1");
	machine_put(&m, MPROF "caps/three", "0");
	CU_ASSERT_EQUAL(find(&m, "ibs_mprof"), -ENOTSUP);
	CU_ASSERT_TRUE(says("ibs_mprof", "and 4 more"));
	machine_free(&m);
}

static void machine_of_cpuinfo(void)
{
	struct ibs_decoder_params params = { .self_pid = 5 };
	struct machine m;

	machine_new(&m);
	CU_ASSERT_EQUAL(ibs_pmu_machine(&m.root, &params), -ENOENT);
	machine_put(&m, "proc/cpuinfo",
		    "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 17\nmodel name\t: AMD "
		    "EPYC "
		    "9654\nstepping\t: 1\naddress sizes\t: 52 bits physical, 57 bits virtual\n\n"
		    "processor\t: 1\ncpu family\t: 26\nmodel\t\t: 2\naddress sizes\t: 48 bits physical\n");
	CU_ASSERT_EQUAL(ibs_pmu_machine(&m.root, &params), 0);
	CU_ASSERT_EQUAL(params.family, 25);
	CU_ASSERT_EQUAL(params.model, 17);
	CU_ASSERT_EQUAL(params.physical_bits, 52);
	CU_ASSERT_EQUAL(params.self_pid, 5);
	machine_put(&m, "proc/cpuinfo", "model name\t: x\ncpu family\t: many\nmodel\t\t");
	CU_ASSERT_EQUAL(ibs_pmu_machine(&m.root, &params), -EBADMSG);
	CU_ASSERT_EQUAL(params.family + params.model + params.physical_bits, 0);
	machine_free(&m);
}

static enum ibs_pghot pghot(const struct machine *m)
{
	memset(why, 'x', sizeof(why));
	return ibs_pmu_pghot(&m->root, why);
}

static void the_kernels_own_promotion(void)
{
	struct machine m;

	machine_new(&m);
	CU_ASSERT_EQUAL(pghot(&m), IBS_PGHOT_NONE);
	CU_ASSERT_STRING_EQUAL(why, "");
	machine_put(&m, "proc/1/comm", "systemd");
	machine_put(&m, "proc/version", "kmigrated0");
	machine_put(&m, "proc/sys/comm", "kmigrated0");
	CU_ASSERT_EQUAL(pghot(&m), IBS_PGHOT_NONE);
	/* One that only calls itself so. */
	machine_put(&m, "proc/200/comm", "kmigrated1");
	machine_put_bytes(&m, "proc/200/cmdline", "kmigrated1", 11);
	machine_put(&m, "proc/201/comm", "kmigratedx");
	machine_put_bytes(&m, "proc/201/cmdline", "", 0);
	machine_put(&m, "proc/202/comm", "kmigrated");
	machine_put_bytes(&m, "proc/202/cmdline", "", 0);
	CU_ASSERT_EQUAL(pghot(&m), IBS_PGHOT_NONE);
	machine_put(&m, "proc/300/comm", "kmigrated2");
	machine_put_bytes(&m, "proc/300/cmdline", "", 0);
	CU_ASSERT_EQUAL(pghot(&m), IBS_PGHOT_ACTIVE);
	CU_ASSERT_TRUE(says("kmigrated", "thread"));
	/* A setting knows better. */
	machine_put(&m, DEBUGFS, "0");
	CU_ASSERT_EQUAL(pghot(&m), IBS_PGHOT_IDLE);
	machine_put(&m, DEBUGFS, "0x2");
	CU_ASSERT_EQUAL(pghot(&m), IBS_PGHOT_ACTIVE);
	CU_ASSERT_TRUE(says("/sys/kernel/debug/pghot/enabled_sources is 2", "echo 0"));
	machine_put(&m, SYSCTL, "0");
	CU_ASSERT_EQUAL(pghot(&m), IBS_PGHOT_IDLE);
	CU_ASSERT_TRUE(says("vm.pghot_enabled_sources is 0", "off"));
	machine_put(&m, SYSCTL, "1");
	CU_ASSERT_EQUAL(pghot(&m), IBS_PGHOT_ACTIVE);
	CU_ASSERT_TRUE(says("vm.pghot_enabled_sources is 1", "sysctl -w"));
	machine_free(&m);
}

TEST_MAIN(ibs_pmu, TEST(why_absent), TEST(parse_formats), TEST(parse_anything), TEST(set_fields), TEST(generations),
	  TEST(a_kernel_that_moves_a_bit), TEST(no_ibs_at_all), TEST(broken_trees), TEST(the_profiler_we_know),
	  TEST(profilers_we_dont_know), TEST(several_findings_are_counted), TEST(machine_of_cpuinfo),
	  TEST(the_kernels_own_promotion))
