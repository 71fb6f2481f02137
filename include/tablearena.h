/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tablearena: where the hotness tables take their memory from: many small blocks of a few sizes, packed without a
 * header each, in areas that can lie in huge pages and on chosen nodes, and that give memory back to the kernel.
 *
 *     area   64 MiB of address space, mapped when the one before is full; takes memory when it is written to
 *     run    128 KiB of an area: blocks of one size, a multiple of 16 bytes; free for another size when it is empty
 *     large  what is beyond TABLEARENA_SMALL_BYTES has pages of its own
 *
 * Writers     any thread
 * Protection  a mutex: blocks are taken for the first sample of a page and given back by the janitor, not on a hit
 */
#pragma once

#include <stddef.h>

#include "tablemem.h"

#define TABLEARENA_SMALL_BYTES 32768

struct nodeset;
struct tablearena;

/*
 * @pages: where whole pages come from (reserve, unreserve, discard, collapse, bind); NULL: tablemem_libc. @nodes: that
 * the memory should be on, NULL for anywhere; a wish, see tablemem_ops.bind. NULL: out of memory.
 */
struct tablearena *tablearena_new(const struct tablemem_ops *pages, const struct nodeset *nodes);
/* All blocks were given back. Accepts NULL. */
void tablearena_free(struct tablearena *arena);

/* For tablemem_init(); as long as the arena lives. */
const struct tablemem_ops *tablearena_ops(const struct tablearena *arena);

/*
 * Put what is in full use into huge pages: a sample's line is one of many in a large table, and each 4 KiB page more is
 * a walk of the page tables. At most @max parts of 2 MiB; half a millisecond each. Returns how many. Janitor.
 */
size_t tablearena_tidy(struct tablearena *arena, size_t max);
