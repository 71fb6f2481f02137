/* SPDX-License-Identifier: GPL-2.0-or-later */
/* hotness_internal: what hotness*.c share. */
#pragma once

#include "hotmap.h"
#include "hotness.h"
#include "regions.h"
#include "retire.h"
#include "tablearena.h"
#include "tablemem.h"

/* One for each collector: its own cache line. */
struct hotness_shard {
	_Alignas(64) _Atomic uint64_t now_ns; /* of its last sample; relaxed */
	_Atomic uint64_t records_made;        /* relaxed, written by the collector only */
	_Atomic uint64_t pages_seen;          /* the same */
};

struct hotness {
	enum record_layout layout;
	unsigned int shards;
	struct owners *owners;
	struct regions *regions;
	struct hotmap *map;
	struct retire retire;
	struct tablearena *arena; /* NULL: the memory is a test's */
	_Alignas(64) struct tablemem mem;
	/* Records that others than collectors made, less those that anyone cleared; modulo 2^64, relaxed. */
	_Atomic uint64_t records_changed;
	_Atomic uint64_t janitor_ns; /* time of its last turn; relaxed */
	struct hotness_shard shard[HOTNESS_SHARDS_MAX];
};

/* A time that is not after now: good enough to tell that a record has wrapped. */
uint64_t hotness_now_ns(const struct hotness *hotness);
