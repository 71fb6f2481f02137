/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * mover_rest: what failed in passing waits a while before it is tried again: pages that were busy, pinned or shared
 * with a process that may be about to exec; and processes that a node is closed to. Of one size: a page that it has no
 * place for isn't tried again by itself, it must become hot again.
 *
 * Owner   one migrator; not shared
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define REST_TRIES        5
#define REST_FIRST_NS     (100ULL * 1000000ULL) /* doubled with each further try: 3.1 s in all */
#define REST_GIVEN_UP_NS  (30ULL * 1000000000ULL)
#define REST_PROCESS_NS   (10ULL * 1000000000ULL)
#define REST_NO_MEMORY_NS (1ULL * 1000000000ULL)

enum mover_rest_state {
	REST_NOT,
	REST_WAITS,    /* for its next try */
	REST_GIVEN_UP, /* it was tried often enough, and is left in peace for a while */
};

struct mover_rest;

struct mover_rest *mover_rest_new(void); /* NULL: no memory */
void mover_rest_free(struct mover_rest *rest);

/* How is it with page @pfn of the owner @owner_slot? */
enum mover_rest_state mover_rest_page(const struct mover_rest *rest, uint64_t pfn, uint32_t owner_slot,
				      uint64_t now_ns);

/* A try failed. true: it may be tried again when it has waited; false: that was the last one, or there is no place. */
bool mover_rest_page_failed(struct mover_rest *rest, uint64_t pfn, uint32_t owner_slot, uint64_t now_ns);

/* Forget the page: it went well, or it failed in a way that no waiting helps. */
void mover_rest_page_done(struct mover_rest *rest, uint64_t pfn);

/* Is @nid closed to this process? */
bool mover_rest_process(const struct mover_rest *rest, uint32_t owner_slot, uint64_t start_ticks, int nid,
			uint64_t now_ns);
/* It is, from now on for REST_PROCESS_NS. */
void mover_rest_process_failed(struct mover_rest *rest, uint32_t owner_slot, uint64_t start_ticks, int nid,
			       uint64_t now_ns);
