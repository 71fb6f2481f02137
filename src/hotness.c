/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <assert.h>
#include <errno.h>

#include "hotness_internal.h"
#include "owners.h"
#include "rcu.h"
#include "sample.h"

#define SECTION_MIN_BYTES REGION_BYTES
#define SECTION_MAX_BYTES (UINT64_C(64) << 30)

/* The owner of the region that @backref names, and where; NULL when region or owner is gone. */
static const struct owner *resolve(const struct hotness *hotness, uint32_t backref, const struct region **ret_region,
				   uint64_t *ret_key)
{
	const struct region *region = regions_at(hotness->regions, REGION_SLOT_OF(backref));
	const struct owner *owner;

	/* Acquire: pairs with K1 in regions.h. */
	*ret_key = atomic_load_explicit(&region->key, memory_order_acquire);
	if (*ret_key == 0 || atomic_load_explicit(&region->state, memory_order_relaxed) != REGION_LIVE)
		return NULL;
	owner = owners_at(hotness->owners, region_owner_slot(*ret_key));
	if (!owner || atomic_load_explicit(&owner->state, memory_order_relaxed) != OWNER_ALIVE)
		return NULL;
	*ret_region = region;
	return owner;
}

static bool is_alive(void *ctx, uint32_t backref)
{
	const struct region *region;
	uint64_t key;

	return resolve(ctx, backref, &region, &key) != NULL;
}

struct hotness *hotness_new(const struct hotness_options *options, struct owners *owners)
{
	const struct tablemem_ops *ops = options->memory;
	struct tablearena *arena = NULL;
	struct hotness *hotness;
	struct tablemem mem;

	if ((options->layout != RECORD_PRECISE && options->layout != RECORD_COMPACT) || options->shards < 1 ||
	    options->shards > HOTNESS_SHARDS_MAX || options->memory_max_bytes < HOTNESS_MEMORY_MIN_BYTES ||
	    options->section_bytes < SECTION_MIN_BYTES || options->section_bytes > SECTION_MAX_BYTES ||
	    (options->section_bytes & (options->section_bytes - 1)) != 0 || !owners) {
		errno = EINVAL;
		return NULL;
	}
	if (!ops) {
		arena = tablearena_new(NULL, options->nodes);
		ops = arena ? tablearena_ops(arena) : NULL;
	}
	if (!ops) {
		errno = ENOMEM;
		return NULL;
	}
	tablemem_init(&mem, ops, options->memory_max_bytes);
	hotness = tablemem_alloc_lines(&mem, sizeof(*hotness));
	if (!hotness) {
		tablearena_free(arena);
		errno = ENOMEM;
		return NULL;
	}
	hotness->arena = arena;
	/* From here on it is counted where it lies itself. */
	tablemem_init(&hotness->mem, ops, options->memory_max_bytes);
	atomic_init(&hotness->mem.bytes, tablemem_bytes(&mem));
	hotness->layout = options->layout;
	hotness->shards = options->shards;
	hotness->owners = owners;
	retire_init(&hotness->retire);
	hotness->regions = regions_new(&hotness->mem, &hotness->retire, options->shards);
	if (hotness->regions)
		hotness->map = hotmap_new(&hotness->mem, &hotness->retire, options->layout, options->section_bytes,
					  is_alive, hotness);
	if (!hotness->map || slotset_init(&hotness->marks, hotness->mem.ops) < 0) {
		hotness_free(hotness);
		errno = ENOMEM;
		return NULL;
	}
	return hotness;
}

void hotness_free(struct hotness *hotness)
{
	struct tablearena *arena;
	struct tablemem mem;

	if (!hotness)
		return;
	/* Nobody is left that could be in a read section. */
	retire_free(&hotness->retire, retire_take(&hotness->retire));
	hotmap_free(hotness->map);
	regions_free(hotness->regions);
	slotset_done(&hotness->marks);
	mem = hotness->mem;
	arena = hotness->arena;
	tablemem_free_lines(&mem, hotness, sizeof(*hotness));
	assert(tablemem_bytes(&mem) == 0);
	tablearena_free(arena);
}

void hotness_set_memory_max(struct hotness *hotness, uint64_t bytes)
{
	atomic_store_explicit(&hotness->mem.max_bytes, bytes, memory_order_relaxed);
}

enum record_layout hotness_layout(const struct hotness *hotness)
{
	return hotness->layout;
}

uint64_t hotness_now_ns(const struct hotness *hotness)
{
	uint64_t now_ns = atomic_load_explicit(&hotness->janitor_ns, memory_order_relaxed);

	for (unsigned int i = 0; i < hotness->shards; i++) {
		uint64_t ns = atomic_load_explicit(&hotness->shard[i].now_ns, memory_order_relaxed);

		if (ns > now_ns)
			now_ns = ns;
	}
	return now_ns;
}

static bool fill_candidate(const struct hotness *hotness, uint64_t pfn, uint64_t word, struct hotness_candidate *ret)
{
	uint32_t backref = hotmap_backref(word), page = REGION_PAGE_OF(backref);
	const struct region *region;
	const struct owner *owner;
	enum region_mapping mapping;
	uint64_t key;

	owner = resolve(hotness, backref, &region, &key);
	if (!owner)
		return false;
	/* The mapping may have changed since the record was made, from or to a huge page: a record of another page of
	 * the region is of base pages. */
	mapping = region_mapping(region);
	if (page != 0 || (pfn & (REGION_PAGES - 1)) != 0)
		mapping = REGION_BASE_PAGES;
	*ret = (struct hotness_candidate){
		.pfn = pfn,
		.addr = region_addr(key) + ((uint64_t)page << PAGE_SHIFT),
		.page_bytes = region_mapping_bytes(mapping),
		.owner_slot = owner->slot,
		.pid = owner->pid,
		.start_ticks = owner->start_ticks,
		.record = hotmap_record(word),
		.region_slot = REGION_SLOT_OF(backref),
		.decision = atomic_load_explicit(&region->decision, memory_order_relaxed),
		.by_faults = region_is_by_faults(region),
	};
	return true;
}

struct show {
	const struct hotness *hotness;
	const struct hotness_visitor *visitor;
	struct hotness_scan_result *ret;
	struct hotness_candidate candidate; /* the one shown last */
};

static enum hotmap_verdict show_record(void *ctx, uint64_t pfn, uint64_t word)
{
	struct show *show = ctx;

	if (!fill_candidate(show->hotness, pfn, word, &show->candidate))
		return HOTMAP_STALE;
	show->ret->records++;
	switch (show->visitor->decide(show->visitor->ctx, &show->candidate)) {
	case HOTNESS_TAKE:
		return HOTMAP_TAKE;
	case HOTNESS_DROP:
		return HOTMAP_DROP;
	case HOTNESS_NOTE:
		return HOTMAP_NOTED;
	case HOTNESS_STOP:
		return HOTMAP_STOP;
	case HOTNESS_KEEP:
		break;
	}
	return HOTMAP_KEEP;
}

static void finish_record(void *ctx, uint64_t pfn, uint64_t word, enum hotmap_verdict verdict)
{
	struct show *show = ctx;

	(void)pfn;
	(void)word;
	if (verdict == HOTMAP_STALE)
		show->ret->stale++;
	else if (verdict != HOTMAP_DROP && show->visitor->taken)
		show->visitor->taken(show->visitor->ctx, &show->candidate);
}

void hotness_scan(struct hotness *hotness, const struct topology *topology, int nid, unsigned int part,
		  unsigned int parts, const struct hotness_visitor *visitor, struct hotness_scan_result *ret)
{
	struct show show = { .hotness = hotness, .visitor = visitor, .ret = ret };
	struct hotmap_scan scan = {
		.topology = topology,
		.nid = nid,
		.part = part,
		.parts = parts,
		.observing = visitor->observing,
		.now_ns = hotness_now_ns(hotness),
		.show = show_record,
		.done = finish_record,
		.ctx = &show,
	};
	struct hotmap_scan_result result;

	*ret = (struct hotness_scan_result){ 0 };
	hotmap_scan(hotness->map, &scan, &result);
	ret->sections = result.sections;
	ret->stopped = result.stopped;
	atomic_fetch_sub_explicit(&hotness->records_changed, result.cleared, memory_order_relaxed);
}

bool hotness_put_back(struct hotness *hotness, const struct hotness_candidate *candidate)
{
	unsigned int shard = hotness_shard(candidate->pid, candidate->addr, hotness->shards);
	unsigned int page = (unsigned int)(candidate->addr >> PAGE_SHIFT) & (REGION_PAGES - 1);
	const struct region *region;
	const struct owner *owner;
	uint32_t slot;
	bool done = false;

	rcu_enter();
	/* The slot may be another's since it was taken. */
	owner = owners_at(hotness->owners, candidate->owner_slot);
	region = owner && owner->pid == candidate->pid && owner->start_ticks == candidate->start_ticks
			 ? regions_find(hotness->regions, shard, candidate->owner_slot, candidate->addr, &slot)
			 : NULL;
	/* A region that was made anew meanwhile may not have seen the page, and a word must not say that it has. */
	if (region && region_has_seen(region, page))
		done = hotmap_put(hotness->map, candidate->pfn,
				  (uint64_t)REGION_BACKREF(slot, page) << 32 | hotmap_record(candidate->record),
				  hotness_now_ns(hotness));
	rcu_leave();
	if (done)
		atomic_fetch_add_explicit(&hotness->records_changed, 1, memory_order_relaxed);
	return done;
}

bool hotness_find_record(const struct hotness *hotness, uint64_t pfn, struct hotness_candidate *ret)
{
	uint64_t word = hotmap_peek(hotness->map, pfn);

	return word && fill_candidate(hotness, pfn, word, ret);
}

bool hotness_find_region(const struct hotness *hotness, uint32_t pid, uint32_t owner_slot, uint64_t addr,
			 uint64_t now_ns, struct hotness_region *ret)
{
	const struct region *region;

	if (addr >= REGION_ADDR_MAX)
		return false;
	region = regions_find(hotness->regions, hotness_shard(pid, addr, hotness->shards), owner_slot, addr, NULL);
	if (!region)
		return false;
	*ret = (struct hotness_region){
		.pages = atomic_load_explicit(&region->n_seen, memory_order_relaxed),
		.page_bytes = region_page_bytes(region),
		.nodes = atomic_load_explicit(&region->nodes, memory_order_relaxed),
		.idle_ns = region_idle_ns(region, now_ns),
		.decision = atomic_load_explicit(&region->decision, memory_order_relaxed),
	};
	region_counts(region, now_ns, ret->counts);
	return true;
}

void hotness_usage(const struct hotness *hotness, struct hotness_usage *ret)
{
	uint64_t records = atomic_load_explicit(&hotness->records_changed, memory_order_relaxed);
	uint64_t pages_seen = 0, far_samples = 0, far_novel = 0;

	for (unsigned int i = 0; i < hotness->shards; i++) {
		records += atomic_load_explicit(&hotness->shard[i].records_made, memory_order_relaxed);
		pages_seen += atomic_load_explicit(&hotness->shard[i].pages_seen, memory_order_relaxed);
		far_samples += atomic_load_explicit(&hotness->shard[i].far_samples, memory_order_relaxed);
		far_novel += atomic_load_explicit(&hotness->shard[i].far_novel, memory_order_relaxed);
	}
	*ret = (struct hotness_usage){
		.bytes = tablemem_bytes(&hotness->mem),
		.memory_max_bytes = atomic_load_explicit(&hotness->mem.max_bytes, memory_order_relaxed),
		.sections = hotmap_sections(hotness->map),
		.chunks = hotmap_chunks(hotness->map),
		/* Read one after the other: a record may be seen cleared before it is seen made. */
		.records = (int64_t)records > 0 ? records : 0,
		.regions = regions_count(hotness->regions),
		.pages_seen = pages_seen,
		.far_samples = far_samples,
		.far_novel = far_novel,
	};
}
