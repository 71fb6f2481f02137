/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include "harness.h"
#include "machine.h"
#include "maps_lines.h"

#define LONG_LINE 70000

static struct machine machine;
static unsigned int pauses, asked;
static unsigned long least_ns, most_ns;
static unsigned long clock_ns, read_ns;

/* In place of the C library's: nothing waits here, and between two looks at the clock the same time passes each time.
 */
int clock_gettime(clockid_t id, struct timespec *time)
{
	(void)id;
	clock_ns += read_ns;
	*time = (struct timespec){ .tv_sec = (time_t)(clock_ns / 1000000000UL),
				   .tv_nsec = (long)(clock_ns % 1000000000UL) };
	return 0;
}

int nanosleep(const struct timespec *time, struct timespec *left)
{
	unsigned long ns = (unsigned long)time->tv_sec * 1000000000UL + (unsigned long)time->tv_nsec;

	(void)left;
	pauses++;
	least_ns = ns < least_ns ? ns : least_ns;
	most_ns = ns > most_ns ? ns : most_ns;
	return 0;
}

static void start(void)
{
	pauses = asked = 0;
	least_ns = ~0UL;
	most_ns = 0;
	read_ns = 0;
}

struct seen {
	unsigned int n, wrong;
	int stop_at;
};

/* The lines of these tests are their own numbers, with zeros in front. */
static int take(void *ctx, char *line)
{
	struct seen *seen = ctx;

	seen->wrong += strtoul(line, NULL, 10) != seen->n;
	seen->n++;
	return (int)seen->n == seen->stop_at ? 7 : 0;
}

static bool count(void *ctx)
{
	(void)ctx;
	asked++;
	return true;
}

static bool never(void *ctx)
{
	(void)ctx;
	return false;
}

static int numbers(unsigned int n, int width)
{
	char *text = malloc((size_t)n * (size_t)(width + 1) + 1);
	size_t len = 0;
	int fd;

	for (unsigned int i = 0; i < n; i++)
		len += (size_t)sprintf(text + len, "%0*u\n", width, i);
	machine_put_bytes(&machine, "lines", text, len);
	free(text);
	fd = fsroot_open_file(&machine.root, "lines");
	CU_ASSERT(fd >= 0);
	return fd;
}

/* What is asked for in one read() decides for how long a process may have to wait. */
static void few_mappings_at_a_time(void)
{
	struct seen seen = { 0 };
	int fd;

	machine_new(&machine);
	start();
	fd = numbers(1000, 98);
	CU_ASSERT_EQUAL(maps_lines_read(fd, take, &seen, count, NULL), 0);
	close(fd);
	CU_ASSERT_EQUAL(seen.n, 1000);
	CU_ASSERT_EQUAL(seen.wrong, 0);
	CU_ASSERT(asked >= 1000 * 99 / 512);
	machine_free(&machine);
}

static void it_ends_when_told(void)
{
	struct seen seen = { .stop_at = 3 };
	char *line;
	int fd;

	machine_new(&machine);
	start();
	fd = numbers(100, 10);
	CU_ASSERT_EQUAL(maps_lines_read(fd, take, &seen, NULL, NULL), 7);
	CU_ASSERT_EQUAL(seen.n, 3);
	close(fd);
	seen = (struct seen){ 0 };
	fd = numbers(100, 10);
	CU_ASSERT_EQUAL(maps_lines_read(fd, take, &seen, never, NULL), -ECANCELED);
	CU_ASSERT(seen.n < 100);
	close(fd);
	CU_ASSERT_EQUAL(maps_lines_read(-1, take, &seen, NULL, NULL), -EBADF);
	line = malloc(LONG_LINE);
	memset(line, '0', LONG_LINE);
	machine_put_bytes(&machine, "lines", line, LONG_LINE);
	free(line);
	fd = fsroot_open_file(&machine.root, "lines");
	CU_ASSERT_EQUAL(maps_lines_read(fd, take, &seen, NULL, NULL), -EBADMSG);
	close(fd);
	machine_free(&machine);
}

/* 40 reads that take @each_ns: @n pauses, of @ns each. */
static void pauses_of(unsigned long each_ns, unsigned int n, unsigned long ns)
{
	struct seen seen = { 0 };
	int fd;

	machine_new(&machine);
	start();
	read_ns = each_ns;
	fd = numbers(40, MAPS_LINES_READ_BYTES - 1);
	CU_ASSERT_EQUAL(maps_lines_read(fd, take, &seen, count, NULL), 0);
	close(fd);
	CU_ASSERT_EQUAL(seen.n, 40);
	CU_ASSERT_EQUAL(seen.wrong, 0);
	CU_ASSERT_EQUAL(asked, 40);
	CU_ASSERT_EQUAL(pauses, n);
	CU_ASSERT_EQUAL(least_ns, n ? ns : ~0UL);
	CU_ASSERT_EQUAL(most_ns, n ? ns : 0);
	machine_free(&machine);
}

/* Half of the time is left to those who wait, once it is worth a pause; none is so long that nothing gets read. */
static void a_pause_as_long_as_the_reading(void)
{
	pauses_of(1000000, 40, 1000000);
	pauses_of(MAPS_LINES_PAUSE_NS, 40, MAPS_LINES_PAUSE_NS);
	/* Short ones are added up. */
	pauses_of(MAPS_LINES_PAUSE_NS - 1, 20, 2 * (MAPS_LINES_PAUSE_NS - 1));
	pauses_of(20000, 13, 60000);
	pauses_of(MAPS_LINES_PAUSE_NS / 41, 0, 0);
	pauses_of(1000000000, 40, MAPS_LINES_LONGEST_NS);
}

TEST_MAIN(maps_lines, TEST(few_mappings_at_a_time), TEST(it_ends_when_told), TEST(a_pause_as_long_as_the_reading))
