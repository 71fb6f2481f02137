/* SPDX-License-Identifier: GPL-2.0-or-later */
/* refused_calloc: a program that includes it can have its n-th calloc() refused; not under a sanitizer. */
#pragma once

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

#include "sanitized.h"

#ifndef SANITIZED
/* The n-th allocation from here on fails; below 0: none. */
static int allocations_left = -1;
void *__libc_calloc(size_t n, size_t size);

void *calloc(size_t n, size_t size)
{
	if (allocations_left >= 0 && allocations_left-- == 0) {
		errno = ENOMEM;
		return NULL;
	}
	return __libc_calloc(n, size);
}
#endif
