/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "sleep_watch.h"

bool sleep_watch_look(struct sleep_watch *watch, const struct clock *monotonic, const struct clock *boottime)
{
	uint64_t before_ns = clock_now_ns(monotonic);
	uint64_t boot_ns = clock_now_ns(boottime);
	uint64_t after_ns = clock_now_ns(monotonic);
	/* The clocks can't be read at once: between these two is the time asleep. */
	uint64_t least_ns = boot_ns > after_ns ? boot_ns - after_ns : 0;
	uint64_t most_ns = boot_ns > before_ns ? boot_ns - before_ns : 0;
	bool slept = watch->looked && least_ns > watch->asleep_ns;

	if (!watch->looked || slept || most_ns < watch->asleep_ns)
		watch->asleep_ns = most_ns;
	watch->looked = true;
	return slept;
}
