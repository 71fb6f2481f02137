/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "harness.h"
#include "machine.h"
#include "source_health.h"

static char why[SOURCE_WHY_MAX];

static bool says(const char *word1, const char *word2)
{
	bool well = strlen(why) < SOURCE_WHY_MAX - 1 && strstr(why, word1) && strstr(why, word2);

	if (!well)
		printf("  \"%s\" lacks \"%s\" or \"%s\"\n", why, word1, word2);
	return well;
}

/* 100,000 records at once, of which so many have this. */
static const struct {
	const char *name;
	unsigned int bad_percent, cleared_percent, zeroed_percent, no_phys_percent;
	enum source_health want;
	bool fatal;
	const char *word1, *word2;
} tallies[] = {
	{ "all well", 0, 0, 0, 0, SOURCE_HEALTH_WELL, false, "", "" },
	{ "a few of everything", 10, 20, 10, 10, SOURCE_HEALTH_WELL, false, "", "" },
	{ "cleared, and walked", 0, 97, 0, 1, SOURCE_HEALTH_PHYS_WALKED, false, "97%", "perf_event_paranoid=1" },
	{ "zeroed, and walked", 0, 0, 80, 3, SOURCE_HEALTH_PHYS_WALKED, false, "80%", "CAP_PERFMON" },
	{ "cleared, and seldom walked", 0, 97, 0, 60, SOURCE_HEALTH_PHYS_SCARCE, false, "60%", "can't be used" },
	{ "cleared, and never walked", 0, 100, 0, 100, SOURCE_HEALTH_PHYS_NONE, true, "100%", "Linux 6.15" },
	{ "half can't be read", 60, 0, 0, 0, SOURCE_HEALTH_MANY_BAD, false, "60%", "0x00300bff" },
	{ "none can be read", 100, 0, 0, 0, SOURCE_HEALTH_MISFIT, true, "84 bytes", "guessed" },
};

static void verdicts(void)
{
	struct source_ring ring = { .misfit = 84ULL << 32 | 0x00300bff };
	struct source source = { .rings = &ring, .n_rings = 1 };
	struct machine m;

	machine_new(&m);
	machine_put(&m, "proc/sys/kernel/osrelease", "6.15.4-1-amd64");
	machine_put(&m, "proc/sys/kernel/perf_event_paranoid", "2");
	source.env.root = &m.root;
	for (size_t i = 0; i < sizeof(tallies) / sizeof(tallies[0]); i++) {
		/* The counters of sources that were open before are none of its. */
		struct source_tally tally = { 1000000, 500000, 900000, 800000, 0, 700000 };
		struct source_watch watch;

		source_watch_start(&watch, &tally);
		CU_ASSERT_EQUAL(source_watch_look(&watch, &tally), SOURCE_HEALTH_WELL);
		tally.bad += 1000 * tallies[i].bad_percent;
		tally.good += 1000 * (100 - tallies[i].bad_percent);
		tally.placed += 1000 * (100 - tallies[i].bad_percent);
		tally.phys_cleared += 1000 * tallies[i].cleared_percent;
		tally.phys_zeroed += 1000 * tallies[i].zeroed_percent;
		tally.no_phys += 1000 * tallies[i].no_phys_percent;
		if (source_watch_look(&watch, &tally) != tallies[i].want)
			printf("  %s: %d\n", tallies[i].name, watch.health);
		CU_ASSERT_EQUAL(watch.health, tallies[i].want);
		CU_ASSERT_EQUAL(source_health_is_fatal(watch.health), tallies[i].fatal);
		source_watch_explain(&watch, &source, why);
		CU_ASSERT_TRUE(says(tallies[i].word1, tallies[i].word2));
		CU_ASSERT_EQUAL(why[0] != '\0', tallies[i].want != SOURCE_HEALTH_WELL);
		/* It stays until there is as much again to go by. */
		CU_ASSERT_EQUAL(source_watch_look(&watch, &tally), tallies[i].want);
		tally.good += 1000 * SOURCE_HEALTH_SAMPLES;
		tally.placed += 1000 * SOURCE_HEALTH_SAMPLES;
		CU_ASSERT_EQUAL(source_watch_look(&watch, &tally), SOURCE_HEALTH_WELL);
	}
	machine_free(&m);
}

/* A handful says nothing of a share; but no good record at all does. */
static void how_many_it_takes(void)
{
	struct source_tally tally = { 0 };
	struct source_watch watch;

	source_watch_start(&watch, &tally);
	tally.bad = SOURCE_HEALTH_FIRST - 1;
	CU_ASSERT_EQUAL(source_watch_look(&watch, &tally), SOURCE_HEALTH_WELL);
	tally.bad++;
	CU_ASSERT_EQUAL(source_watch_look(&watch, &tally), SOURCE_HEALTH_MISFIT);
	source_watch_start(&watch, &(struct source_tally){ 0 });
	tally.good = 1;
	CU_ASSERT_EQUAL(source_watch_look(&watch, &tally), SOURCE_HEALTH_WELL);
	tally = (struct source_tally){ .good = SOURCE_HEALTH_SAMPLES - 1, .placed = SOURCE_HEALTH_SAMPLES - 1 };
	tally.no_phys = tally.phys_cleared = tally.placed;
	source_watch_start(&watch, &(struct source_tally){ 0 });
	CU_ASSERT_EQUAL(source_watch_look(&watch, &tally), SOURCE_HEALTH_WELL);
	tally.good++;
	CU_ASSERT_EQUAL(source_watch_look(&watch, &tally), SOURCE_HEALTH_PHYS_NONE);
	/* Most of them are something else's: of the few that are left nothing is said. */
	tally = (struct source_tally){ .good = 100000, .placed = 50, .no_phys = 50, .phys_cleared = 50 };
	source_watch_start(&watch, &(struct source_tally){ 0 });
	CU_ASSERT_EQUAL(source_watch_look(&watch, &tally), SOURCE_HEALTH_WELL);
}

static void kernels_that_may_hide(void)
{
	static const struct {
		const char *release, *paranoid;
		bool want;
	} kernels[] = {
		{ "6.1.0-44-amd64", "3", false }, { "6.12.117", "2", false },  { "6.13.1", "2", false },
		{ "6.14.0", "2", true },          { "6.14.0", "3", true },     { "6.14.0", "1", false },
		{ "6.18.26-generic", "2", true }, { "6.19.0", "-1", false },   { "7.0.3", "2", true },
		{ "7.1.0", "2", false },          { "8.0.0", "2", false },     { "5.19.17", "2", false },
		{ "next", "2", false },           { "6.15.0", "high", false },
	};

	for (size_t i = 0; i < sizeof(kernels) / sizeof(kernels[0]); i++) {
		struct machine m;

		machine_new(&m);
		machine_put(&m, "proc/sys/kernel/osrelease", "%s", kernels[i].release);
		machine_put(&m, "proc/sys/kernel/perf_event_paranoid", "%s", kernels[i].paranoid);
		source_health_foresee(&m.root, why);
		if ((why[0] != '\0') != kernels[i].want)
			printf("  %s at %s: \"%s\"\n", kernels[i].release, kernels[i].paranoid, why);
		CU_ASSERT_EQUAL(why[0] != '\0', kernels[i].want);
		CU_ASSERT_TRUE(!kernels[i].want || says("perf_event_paranoid", "page-table walk"));
		machine_free(&m);
	}
}

TEST_MAIN(source_health, TEST(verdicts), TEST(how_many_it_takes), TEST(kernels_that_may_hide))
