/* SPDX-License-Identifier: GPL-2.0-or-later */
/* dataplane_internal: the threads and what they share, for the dataplane*.c files only. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config.h"
#include "dataplane.h"
#include "room.h"
#include "worker.h"

#define DATAPLANE_MIGRATORS_MAX 256

struct read_thread {
	struct dataplane *dp;
	int nid;
	char cpus[256]; /* of the node: where the thread is pinned */
	struct reader *reader;
	struct worker worker;
	uint64_t last_beats;
};

struct collect_thread {
	struct dataplane *dp;
	struct collector *collector;
	struct waker *waker;
	struct worker worker;
	uint64_t last_beats;
};

struct migrate_thread {
	struct dataplane *dp;
	struct migrator *migrator;
	unsigned int part; /* of its node's sections */
	struct waker *waker;
	struct worker worker;
	struct config config; /* this thread's copy: too large for a stack that is passed on */
	bool failed;          /* said once that a pass failed */
	uint64_t last_beats;
};

struct dataplane {
	struct dataplane_params params;
	struct owners *owners;
	struct hotness *hotness;
	struct manage *manage;
	struct worker manager; /* looks at processes */
	struct waker *manager_waker;
	uint64_t manager_beats;
	struct room room;
	struct worker watcher; /* turns the room: looks for cold memory */
	struct waker *watcher_waker;
	uint64_t watcher_beats;
	struct decider *decider;
	struct read_thread *readers;
	size_t n_readers;
	struct collect_thread *collectors;
	size_t n_collectors;
	struct sample_queue **queues; /* [reader * n_collectors + collector] */
	struct migrate_thread *migrators[DATAPLANE_MIGRATORS_MAX];
	size_t n_migrators;
	struct worker janitor;
	struct waker *janitor_waker;
	struct stats_slot *janitor_stats;
	uint64_t janitor_beats;
	_Atomic bool held; /* as stop: paused */
	_Atomic bool stop; /* relaxed: each loop looks once a turn, and nothing else is published by it */
};

/* Sleep up to @timeout_ms, less when the plane stops. Its threads. */
void dataplane_doze(struct dataplane *dp, struct waker *waker, int timeout_ms);

/* dataplane_room.c */

/* Make what the thread that watches fast memory needs: 0 or -ENOMEM, dp->room being good for room_done() only. Main
 * thread. */
int dataplane_room_make(struct dataplane *dp);
/* A turn of that thread. */
int dataplane_room_turn(void *ctx);
