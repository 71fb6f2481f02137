/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cleanup.h"
#include "clock.h"
#include "maps_lines.h"

#define BUFFER_BYTES 65536

/* Let in who waits, once that much was read. */
static void pause_after(uint64_t *held_ns)
{
	uint64_t ns = *held_ns < MAPS_LINES_LONGEST_NS ? *held_ns : MAPS_LINES_LONGEST_NS;
	const struct timespec pause = { .tv_nsec = (long)ns };

	if (ns < MAPS_LINES_PAUSE_NS)
		return;
	nanosleep(&pause, NULL); /* a signal makes it shorter, which does no harm */
	*held_ns = 0;
}

int maps_lines_read(int fd, int (*take)(void *ctx, char *line), void *ctx, bool (*go_on)(void *ctx), void *go_on_ctx)
{
	_cleanup_free_ char *buf = malloc(BUFFER_BYTES + 1);
	uint64_t held_ns = 0, start_ns;
	size_t len = 0, room;

	if (!buf)
		return -ENOMEM;
	for (;;) {
		char *line = buf, *end;
		ssize_t n;
		int r;

		room = BUFFER_BYTES - len;
		start_ns = clock_now_ns(&clock_monotonic);
		n = read(fd, buf + len, room < MAPS_LINES_READ_BYTES ? room : MAPS_LINES_READ_BYTES);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		held_ns += clock_now_ns(&clock_monotonic) - start_ns;
		len += (size_t)n;
		buf[len] = '\0';
		while ((end = memchr(line, '\n', len - (size_t)(line - buf)))) {
			*end = '\0';
			r = take(ctx, line);
			if (r != 0)
				return r;
			line = end + 1;
		}
		if (n == 0)
			return 0;
		len -= (size_t)(line - buf);
		memmove(buf, line, len);
		if (len == BUFFER_BYTES)
			return -EBADMSG;
		if (go_on && !go_on(go_on_ctx))
			return -ECANCELED;
		pause_after(&held_ns);
	}
}
