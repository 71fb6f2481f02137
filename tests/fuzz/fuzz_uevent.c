/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Any bytes as a message of the kernel: an error, or an event whose CPU is in range. */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

#include "fuzz_main.h"
#include "uevent.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct uevent event;
	int r = uevent_parse((const char *)data, size, &event);

	if (r != 0 && r != -EBADMSG)
		abort();
	if (event.kind == UEVENT_CPU_ONLINE || event.kind == UEVENT_CPU_OFFLINE) {
		if (event.cpu < 0 || event.cpu > 65535)
			abort();
	} else if (event.cpu != -1) {
		abort();
	}
	return 0;
}
