/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * bench: what the benchmarks share: results with their bars, clocks, medians. One thread prints.
 *
 * Exit status of a benchmark: 0 all bars held, 1 one was missed or it could not run, 64 usage, 77 it
 * could not be measured, with the reason.
 */
#pragma once

#include <getopt.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "parse.h"

#define BENCH_UNUSED __attribute__((unused))

#define BENCH_ROWS_MAX     64
#define BENCH_OPTIONS_MAX  8
#define BENCH_EXIT_USAGE   64
#define BENCH_EXIT_MISSED  1
#define BENCH_EXIT_SKIPPED 77

enum bench_bar {
	BENCH_NO_BAR,
	BENCH_AT_LEAST,
	BENCH_AT_MOST,
	BENCH_BESIDE, /* to compare with; it decides nothing */
};

struct bench_row {
	const char *name, *unit;
	double value, limit;
	enum bench_bar bar;
};

static struct {
	struct bench_row row[BENCH_ROWS_MAX];
	size_t n;
} bench_results;

static void bench_put_bar(const char *name, double value, const char *unit, enum bench_bar bar, double limit)
{
	if (bench_results.n == BENCH_ROWS_MAX)
		abort();
	bench_results.row[bench_results.n++] =
		(struct bench_row){ .name = name, .unit = unit, .value = value, .limit = limit, .bar = bar };
}

BENCH_UNUSED static void bench_put(const char *name, double value, const char *unit)
{
	bench_put_bar(name, value, unit, BENCH_NO_BAR, 0);
}

static bool bench_met(const struct bench_row *row)
{
	switch (row->bar) {
	case BENCH_AT_LEAST:
		return row->value >= row->limit;
	case BENCH_AT_MOST:
		return row->value <= row->limit;
	default:
		return true;
	}
}

/* Whole numbers whole, others with four digits. */
static void bench_print_number(double value)
{
	if (value >= 1000 || value <= -1000 || value == (double)(int64_t)value)
		printf("%.0f", value);
	else
		printf("%.4g", value);
}

static void bench_print_text(const struct bench_row *row)
{
	static const char *const word[] = {
		[BENCH_AT_LEAST] = "at least", [BENCH_AT_MOST] = "at most", [BENCH_BESIDE] = "beside"
	};

	printf("%s ", row->name);
	bench_print_number(row->value);
	printf(" %s", row->unit);
	if (row->bar != BENCH_NO_BAR) {
		printf(" (%s ", word[row->bar]);
		bench_print_number(row->limit);
		printf("%s)", bench_met(row) ? "" : ": missed");
	}
	putchar('\n');
}

static void bench_print_json(const struct bench_row *row, bool last)
{
	static const char *const key[] = {
		[BENCH_AT_LEAST] = "at_least", [BENCH_AT_MOST] = "at_most", [BENCH_BESIDE] = "beside"
	};

	printf("  \"%s\": { \"value\": %.15g, \"unit\": \"%s\"", row->name, row->value, row->unit);
	if (row->bar != BENCH_NO_BAR)
		printf(", \"%s\": %.15g", key[row->bar], row->limit);
	if (row->bar == BENCH_AT_LEAST || row->bar == BENCH_AT_MOST)
		printf(", \"met\": %s", bench_met(row) ? "true" : "false");
	printf(" }%s\n", last ? "" : ",");
}

/* All results, and the exit status. */
static int bench_end(bool json)
{
	int status = 0;

	if (json)
		puts("{");
	for (size_t i = 0; i < bench_results.n; i++) {
		const struct bench_row *row = &bench_results.row[i];

		if (json)
			bench_print_json(row, i + 1 == bench_results.n);
		else
			bench_print_text(row);
		if (!bench_met(row))
			status = BENCH_EXIT_MISSED;
	}
	if (json)
		puts("}");
	return status;
}

__attribute__((format(printf, 1, 2), noreturn)) BENCH_UNUSED static void bench_die(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	exit(BENCH_EXIT_MISSED);
}

/* --@name=N, at most @max and at least @min, into @number; --@name=TEXT into @text; --@name sets @flag. One of them. */
struct bench_option {
	const char *name;
	uint64_t *number, min, max;
	const char **text;
	bool *flag;
};

/* Read the command line: @options, and --help, which shows @usage. Ends the program where there is nothing to run. */
BENCH_UNUSED static void bench_options(int argc, char **argv, const char *usage, const struct bench_option *options,
				       size_t n)
{
	struct option known[BENCH_OPTIONS_MAX + 2] = { 0 };
	int i;

	if (n > BENCH_OPTIONS_MAX)
		abort();
	for (size_t k = 0; k < n; k++)
		known[k] = (struct option){ .name = options[k].name,
					    .has_arg = options[k].flag ? no_argument : required_argument,
					    .val = (int)k };
	known[n] = (struct option){ .name = "help", .val = (int)n };
	while ((i = getopt_long(argc, argv, "", known, NULL)) >= 0) {
		const struct bench_option *o = i < (int)n ? &options[i] : NULL;

		if (i == (int)n) {
			fputs(usage, stdout);
			exit(0);
		}
		if (!o || (o->number && parse_u64(optarg, o->min, o->max, o->number) < 0)) {
			fputs(usage, stderr);
			exit(BENCH_EXIT_USAGE);
		}
		if (o->text)
			*o->text = optarg;
		if (o->flag)
			*o->flag = true;
	}
	if (optind < argc) {
		fputs(usage, stderr);
		exit(BENCH_EXIT_USAGE);
	}
}

static uint64_t bench_clock_ns(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

BENCH_UNUSED static uint64_t bench_now_ns(void)
{
	return bench_clock_ns(CLOCK_MONOTONIC);
}

/* Time that this thread spent on a CPU: what else the machine runs is not in it, but for what it does to the caches. */
BENCH_UNUSED static uint64_t bench_cpu_ns(void)
{
	return bench_clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

/*
 * Run this thread in real time, so that what else the machine runs does not take turns with it and leave its own things
 * in the caches; only root may. Who does so rests as long as it worked, since the others must live, too: bench_rest().
 */
BENCH_UNUSED static bool bench_realtime(void)
{
	const struct sched_param param = { .sched_priority = 1 };

	return pthread_setschedparam(pthread_self(), SCHED_FIFO, &param) == 0;
}

BENCH_UNUSED static void bench_rest(uint64_t worked_ns)
{
	const struct timespec pause = { .tv_nsec = worked_ns < 500000000 ? (long)worked_ns : 500000000 };

	nanosleep(&pause, NULL);
}

static int bench_compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Sorts @values. 0 when there is none. */
BENCH_UNUSED static double bench_median(double *values, size_t n)
{
	if (n == 0)
		return 0;
	qsort(values, n, sizeof(*values), bench_compare);
	return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

/* xorshift64; @seed is never 0. */
BENCH_UNUSED static inline uint64_t bench_random(uint64_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return *seed;
}

/* 0..n-1 */
BENCH_UNUSED static inline uint64_t bench_draw(uint64_t *seed, uint64_t n)
{
	return (uint64_t)(((unsigned __int128)bench_random(seed) * n) >> 64);
}

/* Keep the compiler from leaving out what nobody reads. */
BENCH_UNUSED static inline void bench_used(const void *p)
{
	__asm__ volatile("" : : "r"(p) : "memory");
}
