/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sim_keys.h"
#include "sim_rig.h"

static struct sim_scenario scenario;
static char error[SIM_ERROR_MAX];

#define GOOD SIM_RIG_MACHINE SIM_RIG_HEAP SIM_RIG_HOT SIM_RIG_CONFIG

static int parse(const char *text)
{
	error[0] = '\0';
	return sim_scenario_parse(text, "folder/mine.conf", &scenario, error);
}

static void defaults_and_values(void)
{
	CU_ASSERT_EQUAL(parse(GOOD "seed = 5; sampler = { per_sec = 12.5; };"), 0);
	CU_ASSERT_STRING_EQUAL(scenario.name, "mine");
	CU_ASSERT_EQUAL(scenario.seed, 5);
	CU_ASSERT_EQUAL(scenario.sampler.per_sec, 12.5);
	CU_ASSERT_EQUAL(scenario.sampler.miss_share, 1);
	CU_ASSERT_EQUAL(scenario.kernel.move_us, 12);
	CU_ASSERT_TRUE(scenario.kernel.demotion);
	CU_ASSERT_EQUAL(scenario.n_nodes, 2);
	CU_ASSERT_EQUAL(scenario.nodes[1].latency_ns, 400);
	CU_ASSERT_STRING_EQUAL(scenario.accesses[0].memory, "heap");
	CU_ASSERT_TRUE(scenario.accesses[0].hot);
	CU_ASSERT_EQUAL(scenario.accesses[0].theta, 0.99);
	CU_ASSERT_EQUAL(scenario.config.mode, MODE_PROMOTE);
	CU_ASSERT_EQUAL(scenario.config.promote_freq_threshold, 1);
	CU_ASSERT_EQUAL(scenario.config.promote_rate_mib_per_sec, 1024);
	CU_ASSERT_EQUAL(sim_scenario_check(&scenario, error), 0);
}

/* Text, and what the message must hold. */
static const struct {
	const char *text, *says;
} bad[] = {
	{ "seconds = ;", "mine.conf:1:" },
	{ "\nsecond = 5;", "mine.conf:2: second: there is no such key; did you mean seconds?" },
	{ "seconds = \"5\";", "a number from 1 to 86400 s is wanted" },
	{ "seconds = 0;", "seconds: a number from 1" },
	{ "seed = 1.5;", "a whole number" },
	{ "sampler = { per_second = 5; };", "per_second: there is no such key" },
	{ "sampler = 5;", "a group is wanted" },
	{ "kernel = { demotion = 1; };", "true or false" },
	{ "nodes = { mib = 5; };", "a list is wanted" },
	{ "nodes = ( 5 );", "its items are groups" },
	{ "nodes = ( {}, {}, {}, {}, {} );", "too many" },
	{ "memory = ( { placing = \"far\"; } );", "one of node|filled|unfilled is wanted" },
	{ "memory = ( { name = \"a name that is longer than thirty-one characters\"; } );", "at most 31 characters" },
	{ "config = { promote = { polic = \"page\"; }; };", "promote.polic" },
	{ "config = { promote = { freq_threshold = 99; }; };", "0 to 7" },
	{ "config = { tiers = ( \"0\", \"1\" ); };", "can't set an option of this kind" },
	{ "config = 7;", "a group is wanted" },
};

static void mistakes_are_named(void)
{
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		CU_ASSERT_EQUAL(parse(bad[i].text), -EINVAL);
		CU_ASSERT_PTR_NOT_NULL(strstr(error, bad[i].says));
		if (!strstr(error, bad[i].says))
			printf("  %s: %s\n", bad[i].text, error);
	}
}

static const struct {
	const char *key, *value, *says;
} no_fit[] = {
	{ "accesses.hot.memory", "stack", "no memory \"stack\"" },
	{ "accesses.hot.first_mib", "240", "goes beyond its memory" },
	{ "accesses.hot.one_in", "3", "no power of two" },
	{ "accesses.hot.fills", "true", "what fills is a sweep" },
	{ "accesses.hot.node", "1", "without CPUs" },
	{ "memory.heap.node", "3", "a node that there isn't" },
	{ "memory.heap.name", "", "needs a name" },
	{ "nodes.0.cpus", "0", "have CPUs" },
	{ "nodes.1.tier", "0", "no node is in a slower tier" },
	{ "kernel.low_percent", "40", "rise from min to low" },
};

static void what_does_not_fit_together_is_named(void)
{
	for (size_t i = 0; i < sizeof(no_fit) / sizeof(no_fit[0]); i++) {
		CU_ASSERT_EQUAL(parse(GOOD), 0);
		CU_ASSERT_EQUAL(sim_scenario_set(&scenario, no_fit[i].key, no_fit[i].value, error), 0);
		CU_ASSERT_EQUAL(sim_scenario_check(&scenario, error), -EINVAL);
		CU_ASSERT_PTR_NOT_NULL(strstr(error, no_fit[i].says));
		if (!strstr(error, no_fit[i].says))
			printf("  %s: %s\n", no_fit[i].key, error);
	}
	CU_ASSERT_EQUAL(parse("seconds = 5;"), 0);
	CU_ASSERT_EQUAL(sim_scenario_check(&scenario, error), -EINVAL);
	for (int i = 0; i < 3; i++) {
		static const char *const first[] = { "2", "-1", "2" }, *const size[] = { "1", "2", "4" };

		CU_ASSERT_EQUAL(parse(GOOD), 0);
		CU_ASSERT_EQUAL(sim_scenario_set(&scenario, "accesses.hot.one_in", "4", error), 0);
		CU_ASSERT_EQUAL(sim_scenario_set(&scenario, "accesses.hot.first_mib", first[i], error), 0);
		CU_ASSERT_EQUAL(sim_scenario_set(&scenario, "accesses.hot.mib", size[i], error), 0);
		CU_ASSERT_EQUAL(sim_scenario_check(&scenario, error), i < 2 ? -EINVAL : 0);
		CU_ASSERT(i == 2 || strstr(error, "multiples of 2 MiB"));
	}
}

static void any_key_can_be_set(void)
{
	CU_ASSERT_EQUAL(parse(GOOD), 0);
	CU_ASSERT_EQUAL(sim_scenario_set(&scenario, "seconds", "33.5", error), 0);
	CU_ASSERT_EQUAL(scenario.seconds, 33.5);
	CU_ASSERT_EQUAL(sim_scenario_set(&scenario, "nodes.1.mib", "512", error), 0);
	CU_ASSERT_EQUAL(scenario.nodes[1].mib, 512);
	CU_ASSERT_EQUAL(sim_scenario_set(&scenario, "accesses.hot.pattern", "zipf", error), 0);
	CU_ASSERT_EQUAL(scenario.accesses[0].pattern, SIM_ZIPF);
	CU_ASSERT_EQUAL(sim_scenario_set(&scenario, "accesses.0.first_mib", "-1", error), 0);
	CU_ASSERT_EQUAL(scenario.accesses[0].first_mib, -1);
	CU_ASSERT_EQUAL(sim_scenario_set(&scenario, "kernel.demotion", "false", error), 0);
	CU_ASSERT_FALSE(scenario.kernel.demotion);
	CU_ASSERT_EQUAL(sim_scenario_set(&scenario, "promote.rate_mib_per_sec", "77", error), 0);
	CU_ASSERT_EQUAL(scenario.config.promote_rate_mib_per_sec, 77);
	CU_ASSERT_EQUAL(sim_scenario_set(&scenario, "config.promote.rate_mib_per_sec", "78", error), 0);
	CU_ASSERT_EQUAL(scenario.config.promote_rate_mib_per_sec, 78);
	CU_ASSERT_EQUAL(sim_scenario_set(&scenario, "mode", "observe", error), 0);
	CU_ASSERT_EQUAL(scenario.config.mode, MODE_OBSERVE);
	CU_ASSERT_EQUAL(sim_scenario_set(&scenario, "nodes.2.mib", "512", error), -EINVAL);
	CU_ASSERT_PTR_NOT_NULL(strstr(error, "no such item"));
	CU_ASSERT_EQUAL(sim_scenario_set(&scenario, "accesses.cold.weight", "1", error), -EINVAL);
	CU_ASSERT_EQUAL(sim_scenario_set(&scenario, "accesses.hot", "1", error), -EINVAL);
	CU_ASSERT_EQUAL(sim_scenario_set(&scenario, "sampler.per_sec", "many", error), -EINVAL);
	CU_ASSERT_PTR_NOT_NULL(strstr(error, "samples/s is wanted"));
	CU_ASSERT_EQUAL(sim_scenario_set(&scenario, "sampler.persec", "1", error), -EINVAL);
	CU_ASSERT_STRING_EQUAL(error, "sampler.persec: there is no such key; did you mean sampler.per_sec?");
	CU_ASSERT_EQUAL(sim_scenario_set(&scenario, "second", "1", error), -EINVAL);
	CU_ASSERT_STRING_EQUAL(error, "second: there is no such key; did you mean seconds?");
	CU_ASSERT_EQUAL(sim_scenario_set(&scenario, "accesses.hot.patern", "zipf", error), -EINVAL);
	CU_ASSERT_STRING_EQUAL(error, "accesses.hot.patern: there is no such key; did you mean accesses.hot.pattern?");
	CU_ASSERT_EQUAL(sim_scenario_set(&scenario, "samplr.per_sec", "1", error), -EINVAL);
	CU_ASSERT_EQUAL(sim_scenario_set(&scenario, "mdoe", "observe", error), -EINVAL);
	CU_ASSERT_PTR_NOT_NULL(strstr(error, "did you mean mode?"));
	CU_ASSERT_EQUAL(sim_scenario_set(&scenario, "promote.rte_mib_per_sec", "1", error), -EINVAL);
	CU_ASSERT_PTR_NOT_NULL(strstr(error, "did you mean promote.rate_mib_per_sec?"));
	CU_ASSERT_EQUAL(sim_scenario_set(&scenario, "promote.rate", "1", error), -EINVAL);
}

static void no_file(void)
{
	CU_ASSERT_EQUAL(sim_scenario_load("no/such/file", "/nowhere", &scenario, error), -ENOENT);
	CU_ASSERT_PTR_NOT_NULL(strstr(error, "no/such/file"));
	CU_ASSERT_EQUAL(sim_scenario_load("nosuch", "/nowhere", &scenario, error), -ENOENT);
	CU_ASSERT_PTR_NOT_NULL(strstr(error, "nosuch: no scenario of that name"));
	CU_ASSERT_PTR_NOT_NULL(strstr(error, "/nowhere/nosuch.conf"));
}

/* One that is called like a scenario must not hide it. */
static void a_folder_is_no_scenario(void)
{
	char path[] = "/tmp/sim-folder-XXXXXX", file[64];
	FILE *out;
	int here = open(".", O_PATH | O_CLOEXEC);

	CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(path));
	snprintf(file, sizeof(file), "%s/mine.conf", path);
	out = fopen(file, "we");
	CU_ASSERT_PTR_NOT_NULL_FATAL(out);
	fputs(GOOD, out);
	fclose(out);
	CU_ASSERT_EQUAL_FATAL(chdir(path), 0);
	CU_ASSERT_EQUAL(mkdir("mine", 0755), 0);
	CU_ASSERT_EQUAL(sim_scenario_load("mine", path, &scenario, error), 0);
	CU_ASSERT_STRING_EQUAL(scenario.name, "mine");
	CU_ASSERT_NOT_EQUAL(sim_scenario_load("./mine", path, &scenario, error), 0);
	rmdir("mine");
	unlink(file);
	CU_ASSERT_EQUAL(fchdir(here), 0);
	close(here);
	rmdir(path);
}

TEST_MAIN(sim_scenario, TEST(defaults_and_values), TEST(mistakes_are_named), TEST(what_does_not_fit_together_is_named),
	  TEST(any_key_can_be_set), TEST(no_file), TEST(a_folder_is_no_scenario))
