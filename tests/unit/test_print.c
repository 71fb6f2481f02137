/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "print.h"
#include "print_options.h"
#include "print_owners.h"
#include "print_status.h"
#include "report.h"
#include "stats.h"

static void bytes_have_at_most_eight_columns(void)
{
	static const struct {
		uint64_t bytes;
		const char *expected;
	} cases[] = {
		{ 0, "0 B" },
		{ 1023, "1023 B" },
		{ 1024, "1.0 KiB" },
		{ 4096, "4.0 KiB" },
		{ 102399, "99.9 KiB" },
		{ 102400, "100 KiB" },
		{ (1 << 20) - 1, "1023 KiB" },
		{ 1 << 20, "1.0 MiB" },
		{ (1ULL << 30) + (1ULL << 29), "1.5 GiB" },
		{ (2ULL << 30) - 1, "1.9 GiB" }, /* rounded down: no room that isn't there */
		{ 1ULL << 40, "1.0 TiB" },
		{ INT64_MAX, "7.9 EiB" },
		{ UINT64_MAX, "15.9 EiB" },
	};
	char buf[PRINT_SHORT_MAX];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		CU_ASSERT_STRING_EQUAL(print_bytes(buf, cases[i].bytes), cases[i].expected);
	for (uint64_t n = 1, i = 0; i < 63 * 7; i++, n = n < UINT64_MAX / 2 ? n * 8 / 7 + 1 : 1)
		CU_ASSERT(strlen(print_bytes(buf, n)) <= 8);
}

static void counts_are_grouped(void)
{
	char buf[PRINT_SHORT_MAX];

	CU_ASSERT_STRING_EQUAL(print_count(buf, 0), "0");
	CU_ASSERT_STRING_EQUAL(print_count(buf, 999), "999");
	CU_ASSERT_STRING_EQUAL(print_count(buf, 1000), "1,000");
	CU_ASSERT_STRING_EQUAL(print_count(buf, 1234567), "1,234,567");
	CU_ASSERT_STRING_EQUAL(print_count(buf, UINT64_MAX), "18,446,744,073,709,551,615");
}

static void durations_read_well(void)
{
	static const struct {
		uint64_t seconds;
		const char *expected;
	} cases[] = {
		{ 0, "0 seconds" },     { 1, "1 second" },           { 119, "119 seconds" }, { 120, "2 minutes" },
		{ 5400, "90 minutes" }, { 7199, "119 minutes" },     { 7200, "2 hours" },    { 172799, "47 hours" },
		{ 172800, "2 days" },   { 86400 * 400, "400 days" },
	};
	char buf[PRINT_SHORT_MAX];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		CU_ASSERT_STRING_EQUAL(print_duration(buf, cases[i].seconds * 1000000000 + 999999999),
				       cases[i].expected);
}

static void bars_do_not_lie(void)
{
	char buf[PRINT_SHORT_MAX * 3];

	CU_ASSERT_STRING_EQUAL(print_bar(buf, 12, 0, 100), "[..........]");
	CU_ASSERT_STRING_EQUAL(print_bar(buf, 12, 1, 100), "[#.........]");
	CU_ASSERT_STRING_EQUAL(print_bar(buf, 12, 50, 100), "[#####.....]");
	CU_ASSERT_STRING_EQUAL(print_bar(buf, 12, 99, 100), "[#########.]");
	CU_ASSERT_STRING_EQUAL(print_bar(buf, 12, 100, 100), "[##########]");
	CU_ASSERT_STRING_EQUAL(print_bar(buf, 12, 101, 100), "[##########]");
	CU_ASSERT_STRING_EQUAL(print_bar(buf, 12, 0, 0), "[..........]");
	CU_ASSERT_STRING_EQUAL(print_bar(buf, 3, UINT64_MAX, UINT64_MAX), "[#]");
	CU_ASSERT_EQUAL(strlen(print_bar(buf, 64, UINT64_MAX - 1, UINT64_MAX)), 64);
}

static void terminal_is_not_driven(void)
{
	char text[] = "a\x1b[2J\n\x07\xc2\x9b~ z";

	print_plain(text);
	CU_ASSERT_STRING_EQUAL(text, "a?[2J????~ z");
}

struct output {
	char *text;
	size_t n;
	FILE *file;
};

static FILE *open_output(struct output *out)
{
	*out = (struct output){ 0 };
	out->file = open_memstream(&out->text, &out->n);
	return out->file;
}

static const char *close_output(struct output *out)
{
	fclose(out->file);
	return out->text;
}

/* Number of lines; 0 when one is wider than the screen or the last has no end. */
static unsigned int rows_within(const char *text, unsigned int columns)
{
	unsigned int rows = 0;

	while (*text) {
		size_t n = strcspn(text, "\n");

		if (n > columns || text[n] != '\n')
			return 0;
		text += n + 1;
		rows++;
	}
	return rows;
}

static unsigned int rows_of(const char *text)
{
	return rows_within(text, PRINT_COLUMNS);
}

static size_t letters_of(const char *text)
{
	size_t n = 0;

	for (; *text; text++)
		n += *text != ' ' && *text != '\n' && *text != '.';
	return n;
}

static void texts_are_broken_at_spaces(void)
{
	struct output out;
	unsigned int seed = 3;
	char text[1200];

	fputs("LABEL ", open_output(&out));
	CU_ASSERT_EQUAL(print_wrapped(out.file, 6, 2, 9,
				      "the first line is cut before the word that would be beyond the eightieth "
				      "column, and "
				      "the rest goes on below"),
			2);
	CU_ASSERT_STRING_EQUAL(close_output(&out),
			       "LABEL the first line is cut before the word that would be beyond the eightieth\n"
			       "  column, and the rest goes on below\n");
	free(out.text);
	CU_ASSERT_EQUAL(print_wrapped(open_output(&out), 0, 0, 1, "short"), 1);
	CU_ASSERT_STRING_EQUAL(close_output(&out), "short\n");
	free(out.text);
	CU_ASSERT_EQUAL(print_wrapped(open_output(&out), 0, 0, 1, ""), 1);
	CU_ASSERT_STRING_EQUAL(close_output(&out), "\n");
	free(out.text);
	for (int round = 0; round < 2000; round++) {
		size_t n = (size_t)rand_r(&seed) % sizeof(text), words = 0, shown = 0;
		unsigned int indent = (unsigned int)rand_r(&seed) % 70, rows = 1 + (unsigned int)rand_r(&seed) % 8, got;

		for (size_t i = 0; i < n; i++)
			text[i] = rand_r(&seed) % (2 + round % 40) ? 'x' : ' ';
		text[n ? n - 1 : 0] = '\0';
		fprintf(open_output(&out), "%*s", (int)indent, "");
		got = print_wrapped(out.file, indent, indent, rows, text);
		close_output(&out);
		CU_ASSERT(got >= 1 && got <= rows);
		CU_ASSERT_EQUAL(rows_of(out.text), got);
		/* Nothing is lost unless that is shown. */
		for (const char *p = text; *p; p++)
			words += *p == 'x';
		for (const char *p = out.text; *p; p++)
			shown += *p == 'x';
		CU_ASSERT(shown == words || (shown < words && strstr(out.text, "..\n")));
		free(out.text);
	}
}

static void check_screen(const char *json, const char *expected)
{
	struct output out;

	CU_ASSERT_EQUAL(print_status(open_output(&out), json, PRINT_COLUMNS, false), 0);
	close_output(&out);
	if (strcmp(out.text, expected) != 0)
		printf("--- is\n%s--- should be\n%s---\n", out.text, expected);
	CU_ASSERT_STRING_EQUAL(out.text, expected);
	CU_ASSERT(rows_of(out.text) > 0 && rows_of(out.text) < PRINT_ROWS);
	free(out.text);
}

static void screen_of_a_good_day(void)
{
	check_screen(
		"{\"schema\":1,\"version\":\"0.1.0\",\"mode\":\"promote\",\"state\":\"promoting\","
		"\"limiting\":\"nothing: all that is hot is moved\",\"reason\":\"\",\"uptime_ns\":7261000000000,"
		"\"pid\":812,\"sources\":[{\"name\":\"hint_faults\",\"state\":\"running\",\"why\":\"\",\"cpus\":64,"
		"\"samples\":1234567},{\"name\":\"ibs\",\"state\":\"unused\",\"why\":\"\",\"cpus\":0,\"samples\":0}],"
		"\"tiers\":[{\"tier\":0,\"fast\":true,\"nodes\":[0,1],\"total_bytes\":103079215104,"
		"\"free_bytes\":31245000000,\"room_bytes\":28000000000},{\"tier\":1,\"fast\":false,\"nodes\":[2],"
		"\"total_bytes\":274877906944,\"free_bytes\":1045000000,\"room_bytes\":7}],\"advice\":\"\","
		"\"counters\":{\"total\":1234567,\"useful\":1222221,\"lost\":12,\"dropped_memory\":3,"
		"\"dropped_queue_full\":4,\"pgpromote_candidate\":443322,\"promoted_pages\":312345,"
		"\"promoted_bytes\":1279365120,\"move_calls\":1234,\"move_ok\":312345,\"move_already\":7,"
		"\"move_busy\":120,\"move_shared\":32,\"move_no_memory\":4,\"move_failed\":1},\"left_alone\":{"
		"\"shared\":1073741824,\"real_time\":4096},"
		"\"guests\":{\"n\":3,\"largest\":[{\"pid\":900,\"name\":\"qemu-system-x86\",\"bytes\":8589934592},"
		"{\"pid\":77,\"name\":\"a\\u001bb\",\"bytes\":4096}]},"
		"\"migrators\":[{\"nid\":2,\"batch_pages\":384,\"call_ns\":50000,\"page_ns\":2540,\"longest_ns\":"
		"1234567},"
		"{\"nid\":3,\"batch_pages\":8,\"call_ns\":5,\"page_ns\":2,\"longest_ns\":7}],"
		"\"map\":{\"bytes\":12345678,\"memory_max_bytes\":1073741824,\"regions\":345,\"records\":12345,"
		"\"sections\":8,\"chunks\":1290,\"evicted_regions\":2,\"owners\":4},"
		"\"policy\":{\"name\":\"region\",\"known\":{\"ratio\":0.9637,\"margin\":0.0121},"
		"\"regions\":{\"waiting\":12}},\"kernel\":{\"promotes\":false,\"promoted_pages\":0}}",
		"pghotd 0.1.0: promoting; up 2 hours, pid 812\n"
		"Limited by  nothing: all that is hot is moved\n"
		"\n"
		"Sources     hint_faults: running, 64 CPUs, 1,234,567 samples\n"
		"Tiers       fast node 0-1   [######...] 29.0 GiB of 96.0 GiB free, room 26.0 GiB\n"
		"            slow node 2     [########.] 996 MiB of 256 GiB free\n"
		"Samples     1,234,567, 98% of them evidence; 12 lost, 7 dropped\n"
		"Hot pages   443,322 found on a slow tier\n"
		"Known       96 +- 2% of far accesses fall on known regions; 12 of them wait\n"
		"Moved up    312,345 pages (1.1 GiB) in 1,234 calls\n"
		"Calls       of 384 pages: 50.0 us and 2.5 us a page, the longest 1.2 ms\n"
		"Not moved   157 pages: 120 busy, 32 shared, 4 no memory, 1 other\n"
		"Left alone  1.0 GiB: 1.0 GiB shared, 4.0 KiB real time\n"
		"KVM guests  qemu-system-x86 (900) 8.0 GiB, a?b (77) 4.0 KiB, and 1 more: what a\n"
		"            guest touches can't be told to pages yet\n"
		"Tables      11.7 MiB of 1.0 GiB; 345 regions, 12,345 pages, 4 processes\n"
		"            8 sections, 1,290 chunks; 2 regions evicted\n"
		"To do       1.0 GiB of hot memory stay because they are shared; to move them:\n"
		"            kinds = { shared = true; }, or shared = true in a rule of\n"
		"            manage.rules\n");
	check_screen("{\"version\":\"0.1.0\",\"mode\":\"promote\",\"state\":\"promoting\",\"uptime_ns\":0,\"pid\":812}",
		     "pghotd 0.1.0: promoting; up 0 seconds, pid 812\n"
		     "\n"
		     "Sources     none in use\n"
		     "Tiers       none known\n"
		     "Samples     none yet; 0 lost\n"
		     "Hot pages   0 found on a slow tier\n"
		     "Moved up    0 pages (0 B) in 0 calls\n"
		     "Tables      none yet\n"
		     "\n"
		     "To do       nothing, all is well\n");
}

static void screen_of_an_observer(void)
{
	check_screen("{\"version\":\"0.1.0\",\"mode\":\"observe\",\"state\":\"observing\",\"limiting\":\"mode is "
		     "\\\"observe\\\"\",\"uptime_ns\":61000000000,\"pid\":812,\"sources\":[{\"name\":\"ibs\","
		     "\"state\":\"running\",\"cpus\":8,\"samples\":5,\"period\":10000,\"cost_ratio\":0.0081}],"
		     "\"counters\":{\"total\":5,\"useful\":4,"
		     "\"pgpromote_candidate\":512,\"would_promote_pages\":512,\"would_promote_bytes\":2097152}}",
		     "pghotd 0.1.0: observing; up 61 seconds, pid 812\n"
		     "Limited by  mode is \"observe\"\n"
		     "\n"
		     "Sources     ibs: running, 8 CPUs, 5 samples; period 10,000, cost 0.81%\n"
		     "Tiers       none known\n"
		     "Samples     5, 80% of them evidence; 0 lost, 0 dropped\n"
		     "Hot pages   512 found on a slow tier\n"
		     "Would move  512 pages (2.0 MiB), if the mode were promote\n"
		     "Tables      none yet\n"
		     "\n"
		     "To do       nothing is moved now; to move what is hot: pghotctl mode promote\n");
	/* Asked to promote, but the tiers are guessed: to say "mode promote" would be no help. */
	check_screen("{\"version\":\"0.1.0\",\"mode\":\"promote\",\"state\":\"observing\",\"observe_only\":true,"
		     "\"limiting\":\"the tiers are guessed: name them in tiers = (...)\",\"uptime_ns\":61000000000,"
		     "\"pid\":812,\"advice\":\"The kernel sees one tier, but the memory of node 1 is 3.1 times as "
		     "slow: "
		     "add this line to pghotd.conf: tiers = ( \\\"0\\\", \\\"1\\\" );\"}",
		     "pghotd 0.1.0: observing, in mode promote; up 61 seconds, pid 812\n"
		     "Limited by  the tiers are guessed: name them in tiers = (...)\n"
		     "\n"
		     "Sources     none in use\n"
		     "Tiers       none known\n"
		     "Samples     none yet; 0 lost\n"
		     "Hot pages   0 found on a slow tier\n"
		     "Moved up    0 pages (0 B) in 0 calls\n"
		     "Tables      none yet\n"
		     "\n"
		     "To do       The kernel sees one tier, but the memory of node 1 is 3.1 times as\n"
		     "            slow: add this line to pghotd.conf: tiers = ( \"0\", \"1\" );\n");
}

static void owners_are_a_table(void)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	CU_ASSERT_EQUAL(print_owners(out,
				     "{\"state\":\"observing\",\"map\":{\"owners\":5},\"processes\":["
				     "{\"pid\":812,\"name\":\"redis-server\",\"bytes\":7340032,\"regions\":12345,"
				     "\"hot_bytes\":1073741824,\"evicted_regions\":17},"
				     "{\"pid\":4194304,\"name\":\"a\\u001bb\"},7]}",
				     false),
			0);
	fclose(out);
	CU_ASSERT_STRING_EQUAL(text, "       pid process             tables      regions       hot      evicted\n"
				     "       812 redis-server       7.0 MiB       12,345   1.0 GiB           17\n"
				     "   4194304 a?b                    0 B            0       0 B            0\n"
				     "         0                        0 B            0       0 B            0\n"
				     "and 2 more\n");
	free(text);
	CU_ASSERT_EQUAL(print_owners(stdout, "{}", false), -EINVAL);
	CU_ASSERT_EQUAL(print_owners(stdout, "no", false), -EINVAL);
}

static void screen_of_a_bad_day(void)
{
	check_screen(
		"{\"version\":\"0.1.0\",\"mode\":\"promote\",\"state\":\"degraded\",\"limiting\":"
		"\"promote.rate_mib_per_sec\",\"reason\":\"the kernel promotes pages itself (12345 since the start): "
		"see kernel.numa_balancing and the free memory of the fast node\",\"uptime_ns\":0,\"pid\":4194304,"
		"\"sources\":[{\"name\":\"hint_faults\",\"state\":\"degraded\",\"why\":\"kernel.numa_balancing is 0, "
		"so no hint faults come: sysctl kernel.numa_balancing=2\",\"cpus\":128,\"samples\":123456789}],"
		"\"tiers\":[{\"fast\":true,\"nodes\":[0,1,2,3,4,5,6,7],\"total_bytes\":1,\"free_bytes\":0},"
		"{\"nodes\":[8,10,12]},{\"nodes\":[14]},{\"nodes\":[15]},{\"nodes\":[16]},{\"nodes\":[17]}],"
		"\"counters\":{\"total\":1000,\"useful\":10,\"lost\":10,\"throttled\":0,\"move_denied\":3,"
		"\"dropped_memory\":9,\"discarded_no_phys\":100},\"left_alone\":{\"shared\":1234567890,"
		"\"pinned\":12345678,\"a rule\":4096,\"locked\":1},\"kernel\":{\"promotes\":true,"
		"\"promoted_pages\":12345}}",
		"pghotd 0.1.0: degraded, in mode promote; up 0 seconds, pid 4194304\n"
		"Why         the kernel promotes pages itself (12345 since the start): see\n"
		"            kernel.numa_balancing and the free memory of the fast node\n"
		"Limited by  promote.rate_mib_per_sec\n"
		"\n"
		"Sources     hint_faults: degraded, 128 CPUs, 123,456,789 samples\n"
		"Tiers       fast node 0-7   [#########] 0 B of 1 B free, room 0 B\n"
		"            slow 3 nodes    [.........] 0 B of 0 B free\n"
		"            slow node 14    [.........] 0 B of 0 B free\n"
		"            and 3 more\n"
		"Samples     1,000, 1% of them evidence; 10 lost, 9 dropped\n"
		"Hot pages   0 found on a slow tier\n"
		"Moved up    0 pages (0 B) in 0 calls\n"
		"Not moved   3 pages: 3 denied\n"
		"Left alone  1.1 GiB: 1.1 GiB shared, 11.7 MiB pinned, 4.0 KiB a rule, 1 B other\n"
		"Tables      none yet\n"
		"Kernel      promoted 12,345 pages itself\n"
		"To do       hint_faults: kernel.numa_balancing is 0, so no hint faults come:\n"
		"            sysctl kernel.numa_balancing=2\n"
		"            the kernel refused us the process: 3. pghotd needs CAP_SYS_PTRACE.\n"
		"            records the kernel dropped before we could read them: 10. Rings ran\n"
		"            full: raise threads.ring_kib, or sample less.\n"
		"            no physical address: 100. Many of these with hardware sampling:..\n");
}

static void colours_are_for_terminals(void)
{
	static const char json[] = "{\"state\":\"promoting\",\"mode\":\"promote\"}";
	struct output plain, coloured;
	char stripped[4096], *to = stripped;

	print_status(open_output(&plain), json, PRINT_COLUMNS, false);
	print_status(open_output(&coloured), json, PRINT_COLUMNS, true);
	close_output(&plain);
	close_output(&coloured);
	CU_ASSERT_PTR_NULL(strchr(plain.text, '\x1b'));
	CU_ASSERT_PTR_NOT_NULL(strstr(coloured.text, "\x1b[1;32mpromoting\x1b[0m"));
	/* They change no text. */
	for (const char *p = coloured.text; *p; p++) {
		if (*p == '\x1b')
			p = strchr(p, 'm');
		else
			*to++ = *p;
	}
	*to = '\0';
	CU_ASSERT_STRING_EQUAL(stripped, plain.text);
	free(plain.text);
	free(coloured.text);
}

static void other_documents_are_refused(void)
{
	static const char *const texts[] = { "", "{", "[]", "{}", "null", "{\"state\":3}", "\xff", "{\"schema\":1}" };
	struct output out;

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		CU_ASSERT_EQUAL(print_status(open_output(&out), texts[i], PRINT_COLUMNS, false), -EINVAL);
		CU_ASSERT_STRING_EQUAL(close_output(&out), "");
		free(out.text);
		if (strcmp(texts[i], "[]") == 0)
			continue;
		CU_ASSERT_EQUAL(print_options(open_output(&out), texts[i], NULL, false), -EINVAL);
		CU_ASSERT_STRING_EQUAL(close_output(&out), "");
		free(out.text);
	}
	/* Values of the wrong type, as from a later version. */
	check_screen("{\"state\":\"shaky\\u001b[2J\",\"version\":1,\"mode\":[],\"uptime_ns\":-5,\"pid\":\"x\","
		     "\"sources\":{},"
		     "\"tiers\":[7],\"counters\":[],\"left_alone\":[],\"map\":\"\",\"advice\":{}}",
		     "pghotd : shaky?[2J, in mode observe; up 0 seconds, pid 0\n"
		     "\n"
		     "Sources     none in use\n"
		     "Tiers       slow node       [.........] 0 B of 0 B free\n"
		     "Samples     none yet; 0 lost\n"
		     "Hot pages   0 found on a slow tier\n"
		     "Tables      none yet\n"
		     "\n");
}

/* What a guard does, and what moving is good for, in words. */
static void screen_of_guards(void)
{
	check_screen("{\"version\":\"0.1.0\",\"mode\":\"promote\",\"state\":\"promoting\",\"uptime_ns\":0,\"pid\":812,"
		     "\"guard\":{\"cause\":\"\",\"n_resting\":2,\"resting\":[{\"pid\":77,\"name\":\"thrash\","
		     "\"left_ns\":540000000000}]},\"helps\":{\"holdout_ratio\":0.05,\"saved\":0.71,\"margin\":0.035,"
		     "\"latency_held_cycles\":900,\"latency_moved_cycles\":558,\"cpu_back\":0.094}}",
		     "pghotd 0.1.0: promoting; up 0 seconds, pid 812\n"
		     "\n"
		     "Sources     none in use\n"
		     "Tiers       none known\n"
		     "Samples     none yet; 0 lost\n"
		     "Hot pages   0 found on a slow tier\n"
		     "Moved up    0 pages (0 B) in 0 calls\n"
		     "Resting     thrash (77) for 540 s, and 1 more: what was promoted of it was\n"
		     "            pushed out again\n"
		     "Does it pay yes: far accesses down 71 +- 4%, about 9% of CPU time back; sampled\n"
		     "            latency -38% (5% of regions held out)\n"
		     "Tables      none yet\n"
		     "\n"
		     "To do       nothing, all is well\n");
	check_screen("{\"version\":\"0.1.0\",\"mode\":\"promote\",\"state\":\"promoting\",\"uptime_ns\":0,\"pid\":812,"
		     "\"helps\":{\"holdout_ratio\":0.05,\"saved\":-0.2,\"margin\":0.035,\"cpu_back\":null}}",
		     "pghotd 0.1.0: promoting; up 0 seconds, pid 812\n"
		     "\n"
		     "Sources     none in use\n"
		     "Tiers       none known\n"
		     "Samples     none yet; 0 lost\n"
		     "Hot pages   0 found on a slow tier\n"
		     "Moved up    0 pages (0 B) in 0 calls\n"
		     "Does it pay no: far accesses up 20 +- 4%, CPU time not known (5% of regions held\n"
		     "            out)\n"
		     "Tables      none yet\n"
		     "\n"
		     "To do       nothing, all is well\n");
}

static const char *random_text(unsigned int *seed, char buf[600])
{
	size_t n = (size_t)rand_r(seed) % (rand_r(seed) % 4 ? 30 : 599);

	for (size_t i = 0; i < n; i++)
		buf[i] = (char)(rand_r(seed) % 8 ? 'a' + rand_r(seed) % 26 : ' ');
	buf[n] = '\0';
	return buf;
}

static json_int_t random_number(unsigned int *seed)
{
	uint64_t n = (uint64_t)rand_r(seed) << 32 | (uint64_t)rand_r(seed);

	return (json_int_t)(n >> (rand_r(seed) % 64) & INT64_MAX);
}

/* Whatever the machine, it is one screen. */
static void screen_never_overflows(void)
{
	unsigned int seed = 5;
	char a[600], b[600];

	for (int round = 0; round < 300; round++) {
		json_t *doc = json_object(), *sources = json_array(), *tiers = json_array(), *counters = json_object(),
		       *left = json_object();
		struct output out;
		unsigned int columns;
		size_t letters;
		char *text;

		for (int i = rand_r(&seed) % 5; i > 0; i--)
			json_array_append_new(sources,
					      json_pack("{s:s, s:s, s:s, s:I, s:I, s:I, s:f}", "name",
							random_text(&seed, a), "state", "running", "why",
							random_text(&seed, b), "cpus", random_number(&seed), "samples",
							random_number(&seed), "period", random_number(&seed),
							"cost_ratio", (double)random_number(&seed)));
		for (int i = rand_r(&seed) % 12; i > 0; i--)
			json_array_append_new(tiers,
					      json_pack("{s:b, s:[I, I, i], s:I, s:I, s:I}", "fast", i % 2, "nodes",
							random_number(&seed) % 1200, random_number(&seed) % 1200, i,
							"total_bytes", random_number(&seed), "free_bytes",
							random_number(&seed), "room_bytes", random_number(&seed)));
		for (int i = 0; i < STAT_MAX; i++)
			json_object_set_new(counters, stat_info[i].name, json_integer(random_number(&seed)));
		for (int i = rand_r(&seed) % 6; i > 0; i--)
			json_object_set_new(left, random_text(&seed, a), json_integer(random_number(&seed)));
		json_object_set_new(doc, "state", json_string(report_state_name[rand_r(&seed) % STATE_MAX]));
		json_object_set_new(doc, "mode", json_string(rand_r(&seed) % 2 ? "promote" : "observe"));
		json_object_set_new(doc, "version", json_string(random_text(&seed, a)));
		json_object_set_new(doc, "reason", json_string(random_text(&seed, a)));
		json_object_set_new(doc, "limiting", json_string(random_text(&seed, a)));
		json_object_set_new(doc, "advice", json_string(random_text(&seed, a)));
		json_object_set_new(doc, "uptime_ns", json_integer(random_number(&seed)));
		json_object_set_new(doc, "pid", json_integer(rand_r(&seed) % 4194305));
		json_object_set_new(doc, "sources", sources);
		json_object_set_new(doc, "tiers", tiers);
		json_object_set_new(doc, "counters", counters);
		json_object_set_new(doc, "left_alone", left);
		json_object_set_new(doc, "map",
				    json_pack("{s:I, s:I, s:I, s:I, s:I}", "bytes", random_number(&seed),
					      "memory_max_bytes", random_number(&seed), "regions", random_number(&seed),
					      "records", random_number(&seed), "owners", random_number(&seed)));
		text = json_dumps(doc, 0);
		CU_ASSERT_EQUAL(print_status(open_output(&out), text, PRINT_COLUMNS, false), 0);
		close_output(&out);
		CU_ASSERT(rows_of(out.text) > 0 && rows_of(out.text) < PRINT_ROWS);
		if (rows_of(out.text) == 0 || rows_of(out.text) >= PRINT_ROWS)
			printf("%s", out.text);
		letters = letters_of(out.text);
		free(out.text);
		/* On a narrow terminal no line is longer than that, and nothing is lost. */
		columns = PRINT_COLUMNS_MIN + (unsigned int)round % (PRINT_COLUMNS - PRINT_COLUMNS_MIN);
		CU_ASSERT_EQUAL(print_status(open_output(&out), text, columns, false), 0);
		close_output(&out);
		CU_ASSERT(rows_within(out.text, columns) > 0 && letters_of(out.text) >= letters);
		if (rows_within(out.text, columns) == 0 || letters_of(out.text) < letters)
			printf("%u columns, %zu letters of %zu:\n%s", columns, letters_of(out.text), letters, out.text);
		free(out.text);
		free(text);
		json_decref(doc);
	}
}

static const char options_text[] =
	"[{\"key\":\"mode\",\"type\":\"enum\",\"unit\":\"\",\"choices\":[\"observe\",\"promote\"],\"default\":"
	"\"observe\","
	"\"value\":\"promote\",\"origin\":\"file\",\"change\":\"live\",\"help\":\"observe: measure; promote: move\"},"
	"{\"key\":\"sources\",\"type\":\"list\",\"unit\":\"\",\"default\":\"( \\\"auto\\\" )\",\"value\":\"( "
	"\\\"ibs\\\", "
	"\\\"hint_faults\\\" )\",\"origin\":\"file\",\"change\":\"restart\",\"help\":\"where samples come from\"},"
	"{\"key\":\"tiers\",\"type\":\"list\",\"unit\":\"\",\"default\":\"( )\",\"value\":\"( "
	")\",\"origin\":\"default\","
	"\"change\":\"live\",\"help\":\"node lists\"},"
	"{\"key\":\"target_nid\",\"type\":\"int\",\"unit\":\"node\",\"min\":-1,\"max\":1023,\"default\":-1,\"value\":3,"
	"\"origin\":\"tuned\",\"change\":\"live\",\"help\":\"promote to this node\"},"
	"{\"key\":\"hint_faults.manage_sysctls\",\"type\":\"bool\",\"unit\":\"\",\"default\":false,\"value\":true,"
	"\"origin\":\"file\",\"change\":\"live\",\"help\":\"set the two sysctls that hint faults need, and put them "
	"back when "
	"pghotd ends or another source is used\"},"
	"{\"key\":\"promote.headroom_percent\",\"type\":\"float\",\"unit\":\"percent\",\"min\":0.0,\"max\":50.0,"
	"\"default\":3.0,\"value\":2.5,\"origin\":\"tuned\",\"change\":\"live\",\"help\":\"never filled\"},"
	"{\"key\":\"control.group\",\"type\":\"text\",\"unit\":\"\",\"default\":\"pghot\",\"value\":\"\","
	"\"origin\":\"restart\",\"change\":\"restart\",\"help\":\"group\"}]";

static void check_options(const char *key, int shown, const char *expected)
{
	struct output out;

	CU_ASSERT_EQUAL(print_options(open_output(&out), options_text, key, false), shown);
	close_output(&out);
	if (strcmp(out.text, expected) != 0)
		printf("--- is\n%s--- should be\n%s---\n", out.text, expected);
	CU_ASSERT_STRING_EQUAL(out.text, expected);
	CU_ASSERT(!shown || rows_of(out.text) > 0);
	free(out.text);
}

static void options_fit_the_screen(void)
{
	check_options(NULL, 7,
		      "KEY                        VALUE    DEFAULT  RANGE           UNIT     FROM\n"
		      "mode                       promote  observe  observe|promote          file\n"
		      "sources                    ibs,hi.. auto                              file*\n"
		      "tiers                      ( )      ( )                               default\n"
		      "target_nid                 3        -1       -1..1023        node     tuned\n"
		      "hint_faults.manage_sysctls true     false    true|false               file\n"
		      "promote.headroom_percent   2.5      3        0..50           percent  tuned\n"
		      "control.group                       pghot                             restart*\n"
		      "\n"
		      "Set one: pghotctl tune KEY=VALUE, until the next reload or restart.\n"
		      "*: in the configuration file only, with a restart.\n"
		      "restart*: the file has another value by now, for the next start.\n");
	check_options("t", 5,
		      "KEY                        VALUE    DEFAULT  RANGE           UNIT     FROM\n"
		      "tiers                      ( )      ( )                               default\n"
		      "target_nid                 3        -1       -1..1023        node     tuned\n"
		      "hint_faults.manage_sysctls true     false    true|false               file\n"
		      "promote.headroom_percent   2.5      3        0..50           percent  tuned\n"
		      "control.group                       pghot                             restart*\n"
		      "\n"
		      "Set one: pghotctl tune KEY=VALUE, until the next reload or restart.\n"
		      "*: in the configuration file only, with a restart.\n"
		      "restart*: the file has another value by now, for the next start.\n");
	check_options("nosuch", 0, "");
	check_options("sources", 1,
		      "sources = ( \"ibs\", \"hint_faults\" )\n"
		      "  where samples come from\n"
		      "  default: ( \"auto\" )\n"
		      "  from the configuration file\n"
		      "  a change takes effect with the next start of pghotd\n");
	check_options("target_nid", 1,
		      "target_nid = 3 node\n"
		      "  promote to this node\n"
		      "  range: -1 to 1023\n"
		      "  default: -1\n"
		      "  tuned: lasts until the next reload or restart\n"
		      "  a change takes effect at once\n");
	check_options("hint_faults.manage_sysctls", 1,
		      "hint_faults.manage_sysctls = true\n"
		      "  set the two sysctls that hint faults need, and put them back when pghotd ends\n"
		      "  or another source is used\n"
		      "  range: true|false\n"
		      "  default: false\n"
		      "  from the configuration file\n"
		      "  a change takes effect at once\n");
	check_options("control.group", 1,
		      "control.group = \"\"\n"
		      "  group\n"
		      "  default: pghot\n"
		      "  the configuration file has another value by now, for the next start\n"
		      "  a change takes effect with the next start of pghotd\n");
}

TEST_MAIN(print, TEST(bytes_have_at_most_eight_columns), TEST(counts_are_grouped), TEST(durations_read_well),
	  TEST(bars_do_not_lie), TEST(terminal_is_not_driven), TEST(texts_are_broken_at_spaces),
	  TEST(screen_of_a_good_day), TEST(screen_of_an_observer), TEST(screen_of_guards), TEST(owners_are_a_table),
	  TEST(screen_of_a_bad_day), TEST(colours_are_for_terminals), TEST(other_documents_are_refused),
	  TEST(screen_never_overflows), TEST(options_fit_the_screen))
