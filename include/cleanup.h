/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * cleanup: scope-bound ownership for the simple owners (descriptor, memory, stream).
 * Anything with more than one step to undo uses one forward goto chain instead.
 */
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static inline void cleanup_close(const int *fd)
{
	if (*fd >= 0)
		close(*fd);
}

static inline void cleanup_free(void *p)
{
	free(*(void **)p);
}

static inline void cleanup_fclose(FILE **f)
{
	if (*f)
		fclose(*f);
}

/* Descriptors start at -1, pointers at NULL: each of these may run on a half-built owner. */
#define _cleanup_close_  __attribute__((cleanup(cleanup_close)))
#define _cleanup_free_   __attribute__((cleanup(cleanup_free)))
#define _cleanup_fclose_ __attribute__((cleanup(cleanup_fclose)))

/* Hand ownership on: the value of @p, which becomes NULL. */
#define take_ptr(p)                    \
	({                             \
		typeof(p) taken = (p); \
		(p) = NULL;            \
		taken;                 \
	})

/* Hand ownership on: the descriptor in @fd, which becomes -1. */
#define take_fd(fd)             \
	({                      \
		int taken = fd; \
		(fd) = -1;      \
		taken;          \
	})
