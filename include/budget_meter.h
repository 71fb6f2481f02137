/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * budget_meter: what one sample costs the CPU it is taken on, and what the kernel thinks of it.
 *
 * No counter has it: an NMI's time is in none of the columns of /proc/stat but in that of whatever it interrupted.
 * Three things are known, each better than the one before:
 *
 * Assumed   BUDGET_METER_ASSUMED_NS. The kernel's defaults allow an NMI handler 2500 ns on average (25% of a CPU at
 *           100,000 samples/s) and leave perf_event_max_sample_rate alone on machines that sample without call chains;
 *           to within a factor of two that is all there is to say.
 * Bounded   The kernel measures itself: perf_sample_event_took() (kernel/events/core.c) averages the handler's time
 * over 128 samples for each CPU, and when that exceeds what it allows (percent / rate) sets the rate to percent / (1.25
 * x average). So once every CPU has had some hundreds of samples the average is at most percent / rate; and when the
 * rate fell while we watched it was 0.8 of that. BUDGET_METER_ENTRY_NS is added: the kernel's stamps leave out the way
 * in and out of the NMI. Measured  A thread that does nothing but read the clock, on a CPU that is sampled, is stopped
 * for the whole length of each NMI: see budget_meter_spin().
 *
 * Owner     the main thread. budget_meter_spin() touches no meter: any thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fsroot.h"

struct clock;

#define BUDGET_METER_ASSUMED_NS 2000
#define BUDGET_METER_ENTRY_NS   400 /* assumed: interrupt, swap of stacks, IRET, some cold cache lines */
#define BUDGET_METER_GAPS       64  /* that an average is made of: the latest */
#define BUDGET_METER_GAPS_MIN   16
#define BUDGET_METER_NOTE_MAX   256

enum budget_meter_basis { BUDGET_METER_ASSUMED, BUDGET_METER_BOUNDED, BUDGET_METER_MEASURED };

/* Starts from all 0. */
struct budget_meter {
	bool started;
	uint64_t rate_at_start; /* or the highest that somebody set since; samples/s for each CPU */
	uint64_t rate;          /* kernel.perf_event_max_sample_rate at the last look, 0: never read */
	uint64_t percent;       /* kernel.perf_cpu_time_max_percent; 0 and 100: the kernel doesn't care */
	uint64_t samples_per_cpu;
	uint32_t gap_ns[BUDGET_METER_GAPS];
	uint64_t n_gaps; /* ever fed */
};

struct budget_meter_cost {
	uint32_t sample_ns; /* best estimate */
	uint32_t high_ns;   /* it is at most this, very likely */
	enum budget_meter_basis basis;
};

/*
 * Read the two sysctls. @samples_per_cpu: taken since the start, on average. 1: the rate is lower than at the last look
 * (say so once, budget_meter_note() has the words); 0; or what reading gave, and the meter is as before: -ENOENT (no
 * perf in this kernel), -EINVAL.
 */
int budget_meter_look(struct budget_meter *meter, const struct fsroot *root, uint64_t samples_per_cpu);

/* One sample stopped a thread for @gap_ns (what a reading of the clock takes itself taken off). 0 is ignored. */
void budget_meter_gap(struct budget_meter *meter, uint64_t gap_ns);

/* What is known now. */
void budget_meter_cost(const struct budget_meter *meter, struct budget_meter_cost *ret);

/*
 * While the rate is below what it was: a sentence that says so and what to do. Else "". Length, cut where @size is too
 * small.
 */
int budget_meter_note(const struct budget_meter *meter, char *buf, size_t size);

/*
 * Read @clock without a pause for @spin_ns, and note each time it stood still, up to @max: more than 4 times the usual
 * distance of two readings, and more than 200 ns. Returns how many of @ret_gaps (in ns, the usual distance taken off)
 * there are. Busy all that time.
 *
 * The caller has bound itself to one CPU and samples it with an event that counts every op (a loop like this has no L3
 * miss), at a period that gives some tens of samples, 5 ms and 100,000 cycles for one; as only one such event fits on a
 * CPU, before the sources are opened. Then budget_meter_calibrate() with the number of samples that were taken.
 */
size_t budget_meter_spin(const struct clock *clock, uint64_t spin_ns, uint64_t *ret_gaps, size_t max);

/*
 * Take @n gaps found while @samples were taken. Timer ticks, and a hypervisor's pauses, make gaps too, so their number
 * must be near: -ERANGE when it isn't within a quarter and 4 of @samples, -ENODATA for fewer than BUDGET_METER_GAPS_MIN
 * samples. 0, and the meter has them.
 */
int budget_meter_calibrate(struct budget_meter *meter, const uint64_t *gaps, size_t n, uint64_t samples);
