/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <assert.h>

#include "hotmap_internal.h"
#include "topology.h"

/* One scan on its way. */
struct walk {
	struct hotmap *map;
	const struct hotmap_scan *scan;
	struct hotmap_scan_result *ret;
	unsigned int kinds; /* of marks that are looked at: all, or the first */
	uint64_t stop_pfn;  /* where it stopped */
};

/* What is left of a chunk: marks to be set again. */
struct rest {
	bool keep[MARK_KINDS];
	bool stop;
};

static void keep_word(struct rest *rest, uint64_t word)
{
	rest->keep[word & HOTMAP_NOTE ? MARK_NOTED : MARK_NEW] = true;
}

static void visit_word(struct walk *walk, const struct hotmap_spot *spot, uint64_t pfn, bool mixed, struct rest *rest)
{
	const struct hotmap_scan *scan = walk->scan;
	const struct hotmap *map = walk->map;
	const enum record_layout layout = map->layout;
	uint64_t raw = hotmap_load(map, spot->at);

	for (;;) {
		uint64_t word = hotmap_wide(map, spot->chunk, spot->cap, raw), next;
		enum hotmap_verdict verdict;

		if (word & HOTMAP_FROZEN) {
			/* Its chunk is being replaced; a scan waits for nobody, the next one sees the new chunk. */
			for (unsigned int kind = 0; kind < walk->kinds; kind++)
				rest->keep[kind] = true;
			return;
		}
		/* A wrapped record needs no mark: before it is ready again, it starts anew, and is marked then. */
		if (!record_ready(layout, hotmap_record(word)) || hotmap_has_wrapped(layout, word, scan->now_ns))
			return;
		/* Noted ones that are ready have the other mark. */
		if (scan->observing && (word & HOTMAP_NOTE))
			return;
		if (mixed && topology_pfn_node(scan->topology, pfn) != scan->nid) {
			keep_word(rest, word);
			return;
		}
		verdict = scan->show(scan->ctx, pfn, word);
		if (verdict == HOTMAP_KEEP || verdict == HOTMAP_STOP) {
			keep_word(rest, word);
			rest->stop = verdict == HOTMAP_STOP;
			return;
		}
		next = verdict == HOTMAP_NOTED
			       ? hotmap_raw_with(map, raw, record_unready(layout, (uint32_t)word) | HOTMAP_NOTE)
			       : 0;
		if (hotmap_cas(map, spot->at, &raw, next)) {
			walk->ret->cleared += next == 0;
			scan->done(scan->ctx, pfn, word, verdict);
			return;
		}
	}
}

/* true to stop. */
static bool visit_chunk(struct walk *walk, struct hotmap_section *section, unsigned int nr, uint64_t pfn)
{
	const struct hotmap_scan *scan = walk->scan;
	bool first_is_ours = topology_pfn_node(scan->topology, pfn) == scan->nid;
	bool last_is_ours = topology_pfn_node(scan->topology, pfn + HOTMAP_CHUNK_PAGES - 1) == scan->nid;
	struct rest rest = { 0 };
	struct hotmap_spot spot;

	/* Another node's part of the section: its marks stay for its own migrator. */
	if (!first_is_ours && !last_is_ours)
		return false;
	for (unsigned int kind = 0; kind < walk->kinds; kind++)
		atomic_fetch_and_explicit(&hotmap_marks(walk->map, section, kind)[nr / 64], ~(UINT64_C(1) << (nr % 64)),
					  memory_order_seq_cst); /* M2 */
	spot.chunk = hotmap_chunk_of(
		atomic_load_explicit(hotmap_chunk_word(walk->map, section, nr), memory_order_acquire)); /* C2 */
	spot.cap = spot.chunk ? hotmap_cap(spot.chunk) : 0;
	for (unsigned int i = 0; i < spot.cap && !rest.stop; i++) {
		int page = hotmap_page_of(spot.chunk, i);

		spot.at = hotmap_word(walk->map, spot.chunk, spot.cap, i);
		if (page >= 0)
			visit_word(walk, &spot, pfn + (unsigned int)page, !first_is_ours || !last_is_ours, &rest);
	}
	/* Of what lies behind the stop, nothing was looked at. */
	for (unsigned int kind = 0; kind < walk->kinds; kind++)
		if (rest.keep[kind] || rest.stop)
			hotmap_mark(walk->map, section, nr, kind);
	if (rest.stop)
		walk->stop_pfn = pfn;
	return rest.stop;
}

static uint64_t marks_of(const struct walk *walk, struct hotmap_section *section, unsigned int word)
{
	uint64_t marks = 0;

	for (unsigned int kind = 0; kind < walk->kinds; kind++)
		marks |= atomic_load_explicit(&hotmap_marks(walk->map, section, kind)[word],
					      memory_order_seq_cst); /* M2 */
	return marks;
}

/* Chunks @first..@end-1 of a section. true to stop. */
static bool visit_section(struct walk *walk, uint64_t index, unsigned int first, unsigned int end)
{
	struct hotmap *map = walk->map;
	struct hotmap_section *section;
	bool stop = false;

	for (unsigned int kind = 0; kind < walk->kinds; kind++)
		atomic_fetch_and_explicit(&map->hot[kind][index / 64], ~(UINT64_C(1) << (index % 64)),
					  memory_order_seq_cst); /* M2 */
	section = hotmap_section_at(map, index);
	if (!section)
		return false;
	walk->ret->sections++;
	for (unsigned int w = first / 64; w < map->words && w * 64 < end && !stop; w++) {
		for (uint64_t marks = marks_of(walk, section, w); marks && !stop; marks &= marks - 1) {
			unsigned int nr = w * 64 + (unsigned int)__builtin_ctzll(marks);

			if (nr >= first && nr < end)
				stop = visit_chunk(walk, section, nr,
						   (index << map->section_shift) +
							   ((uint64_t)nr << HOTMAP_CHUNK_SHIFT));
		}
	}
	/* What was left, was not ours, or came meanwhile. */
	for (unsigned int w = 0; w < map->words; w++)
		for (unsigned int kind = 0; kind < walk->kinds; kind++)
			if (atomic_load_explicit(&hotmap_marks(map, section, kind)[w], memory_order_seq_cst))
				hotmap_mark_section(map, index, kind);
	return stop;
}

/* Words of hot[] that may have a mark: the first from @word on, at most @end. */
static uint64_t next_word(const struct walk *walk, uint64_t word, uint64_t end)
{
	while (word < end) {
		uint64_t warm = 0;

		for (unsigned int kind = 0; kind < walk->kinds; kind++)
			warm |= atomic_load_explicit(&walk->map->warm[kind][word / 64], memory_order_seq_cst);
		warm >>= word % 64;
		if (warm) {
			word += (unsigned int)__builtin_ctzll(warm);
			break;
		}
		word = (word / 64 + 1) * 64;
	}
	return word < end ? word : end;
}

static uint64_t hot_sections(const struct walk *walk, uint64_t word)
{
	uint64_t hot = 0;

	for (unsigned int kind = 0; kind < walk->kinds; kind++)
		hot |= atomic_load_explicit(&walk->map->hot[kind][word], memory_order_seq_cst); /* M2 */
	return hot;
}

/*
 * M3: a word of hot[] that is empty has no mark any more. Only then: the sections in it are of other scans, too, which
 * would pass over them. Who has set a bit in it by now did so before it is looked at again here, or finds the mark
 * cleared and sets it.
 */
static void cool_word(const struct walk *walk, uint64_t word)
{
	struct hotmap *map = walk->map;
	uint64_t bit = UINT64_C(1) << (word % 64);

	for (unsigned int kind = 0; kind < walk->kinds; kind++) {
		if (!(atomic_load_explicit(&map->warm[kind][word / 64], memory_order_relaxed) & bit) ||
		    atomic_load_explicit(&map->hot[kind][word], memory_order_seq_cst))
			continue;
		atomic_fetch_and_explicit(&map->warm[kind][word / 64], ~bit, memory_order_seq_cst);
		if (atomic_load_explicit(&map->hot[kind][word], memory_order_seq_cst))
			atomic_fetch_or_explicit(&map->warm[kind][word / 64], bit, memory_order_seq_cst);
	}
}

/* One section of a range of PFNs. true to stop. */
static bool visit_part(struct walk *walk, uint64_t index, uint64_t from, uint64_t to)
{
	struct hotmap *map = walk->map;
	uint64_t base = index << map->section_shift;
	unsigned int first = 0, last = map->chunks;

	if (base < from)
		first = (unsigned int)((from - base) >> HOTMAP_CHUNK_SHIFT);
	if (to - base < (UINT64_C(1) << map->section_shift))
		last = (unsigned int)((to - base + HOTMAP_CHUNK_PAGES - 1) >> HOTMAP_CHUNK_SHIFT);
	return visit_section(walk, index, first, last);
}

/* Marked sections with PFNs @from..@to-1. true to stop. */
static bool visit_range(struct walk *walk, uint64_t from, uint64_t to)
{
	struct hotmap *map = walk->map;
	uint64_t begin = from >> map->section_shift, end, words;

	if (from >= to)
		return false;
	end = ((to - 1) >> map->section_shift) + 1;
	if (end > atomic_load_explicit(&map->sections_end, memory_order_relaxed))
		end = atomic_load_explicit(&map->sections_end, memory_order_relaxed);
	words = (end + 63) / 64;
	for (uint64_t word = next_word(walk, begin / 64, words); word < words;
	     word = next_word(walk, word + 1, words)) {
		for (uint64_t hot = hot_sections(walk, word); hot; hot &= hot - 1) {
			uint64_t index = word * 64 + (unsigned int)__builtin_ctzll(hot);

			if (index < begin || index >= end || index % walk->scan->parts != walk->scan->part)
				continue;
			if (visit_part(walk, index, from, to))
				return true;
		}
		cool_word(walk, word);
	}
	return false;
}

void hotmap_scan(struct hotmap *map, const struct hotmap_scan *scan, struct hotmap_scan_result *ret)
{
	struct walk walk = { .map = map, .scan = scan, .ret = ret, .kinds = scan->observing ? 1 : MARK_KINDS };
	const struct topology_node *node = topology_node(scan->topology, scan->nid);
	uint64_t *cursor, start;

	assert(scan->parts >= 1 && scan->parts <= HOTMAP_PARTS_MAX && scan->part < scan->parts);
	*ret = (struct hotmap_scan_result){ 0 };
	if (!node || scan->nid < 0 || scan->nid >= NODE_MAX)
		return;
	cursor = &map->cursor[scan->nid * HOTMAP_PARTS_MAX + scan->part];
	start = *cursor >= node->start_pfn && *cursor < node->end_pfn ? *cursor : node->start_pfn;
	ret->stopped = visit_range(&walk, start, node->end_pfn) || visit_range(&walk, node->start_pfn, start);
	*cursor = ret->stopped ? walk.stop_pfn : start;
}
