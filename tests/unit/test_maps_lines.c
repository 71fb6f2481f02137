/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include "harness.h"
#include "machine.h"
#include "maps_lines.h"

#define SLOW_READS 40
#define LONG_LINE  70000

static struct machine machine;
static unsigned int pauses, asked;
static unsigned long least_ns, most_ns;
static int wish[2]; /* a byte for each line that shall come */

/* In place of the C library's: nothing waits here. */
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

/* A line a millisecond after it was wished for; @ctx: where it goes. */
static void *write_slowly(void *ctx)
{
	const int *to = ctx;
	char text[16], byte;

	for (unsigned int i = 0; i < SLOW_READS && read(wish[0], &byte, 1) == 1; i++) {
		int n = snprintf(text, sizeof(text), "%u\n", i);

		poll(NULL, 0, 1);
		if (write(*to, text, (size_t)n) != n)
			break;
	}
	close(*to);
	return NULL;
}

static bool wish_for(void *ctx)
{
	(void)ctx;
	asked++;
	return write(wish[1], "", 1) == 1;
}

/* Each of these reads takes a millisecond, so nearly each is followed by a pause at least as long as can be. */
static void a_pause_after_a_while(void)
{
	struct seen seen = { 0 };
	pthread_t writer;
	int fd[2];

	start();
	CU_ASSERT_EQUAL(pipe(fd), 0);
	CU_ASSERT_EQUAL(pipe(wish), 0);
	CU_ASSERT_EQUAL(pthread_create(&writer, NULL, write_slowly, &fd[1]), 0);
	CU_ASSERT_EQUAL(write(wish[1], "", 1), 1);
	CU_ASSERT_EQUAL(maps_lines_read(fd[0], take, &seen, wish_for, NULL), 0);
	pthread_join(writer, NULL);
	CU_ASSERT_EQUAL(seen.n, SLOW_READS);
	CU_ASSERT_EQUAL(seen.wrong, 0);
	CU_ASSERT_EQUAL(asked, SLOW_READS);
	/* Of those few that began late, some were short. */
	CU_ASSERT(pauses > SLOW_READS / 2 && pauses <= SLOW_READS);
	CU_ASSERT(least_ns >= MAPS_LINES_PAUSE_NS);
	CU_ASSERT(most_ns <= MAPS_LINES_LONGEST_NS);
	close(fd[0]);
	close(wish[0]);
	close(wish[1]);
}

TEST_MAIN(maps_lines, TEST(few_mappings_at_a_time), TEST(it_ends_when_told), TEST(a_pause_after_a_while))
