/* SPDX-License-Identifier: GPL-2.0-or-later */
/* hash: of bytes, to tell whether they are the same as before; not against anybody who wants them to look the same. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define HASH_FNV1A_START UINT64_C(0xcbf29ce484222325)

/* @hash, which is of what comes before or HASH_FNV1A_START, over @n bytes more: FNV-1a of 64 bits. Pure. */
static inline uint64_t hash_fnv1a(uint64_t hash, const void *bytes, size_t n)
{
	const unsigned char *p = bytes;

	for (size_t i = 0; i < n; i++)
		hash = (hash ^ p[i]) * UINT64_C(0x100000001b3);
	return hash;
}
