/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * manage_left: how much hot memory was left alone in the last minute or two, by reason. Each page counts once, however
 * often it was met: see distinct.h for how near that is to the truth.
 *
 * Writer   one migrator
 * Readers  any
 */
#pragma once

#include <stdint.h>

#include "manage.h"

#define LEFT_WINDOW_NS (60ULL * 1000000000ULL)

struct manage_left;

struct manage_left *manage_left_new(void); /* 100 KiB; NULL: no memory */
void manage_left_free(struct manage_left *left);

/* Page @pfn, of @page_bytes (a power of two, 4096 or more), was left. Its migrator. */
void manage_left_add(struct manage_left *left, enum manage_reason reason, uint64_t pfn, uint64_t page_bytes);

/* Let go of what is older than a window. Its migrator, now and then. */
void manage_left_tick(struct manage_left *left, uint64_t now_ns);

/* Bytes, about. Any thread. */
uint64_t manage_left_bytes(const struct manage_left *left, enum manage_reason reason);
