/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "decode.h"
#include "hotness.h"
#include "ibs_sample.h"
#include "perf_ring.h"
#include "reader.h"
#include "sample.h"
#include "sample_queue.h"
#include "source.h"
#include "source_ibs_quick.h"
#include "stats.h"
#include "waker.h"

/* All rings are drained whatever epoll says, so this bounds only how many hang-ups one step takes notice of. */
#define EVENTS_MAX 32

/* What epoll carries for the descriptor that interrupts; rings count from 1. */
#define INTERRUPT_ID 0

struct entry {
	struct source_ring *ring;
	/*
	 * What epoll carries. Not the descriptor, nor the pointer: an event may be about a ring that main has taken
	 * away since, and both may be those of another one by now.
	 */
	uint64_t id;
	int fd; /* in the epoll set; -1: drained by time only */
};

struct reader {
	struct stats_slot *stats;
	struct sample_queue *queues[READER_SHARDS_MAX];
	struct waker *wakers[READER_SHARDS_MAX];
	unsigned int shards;
	uint32_t self_pid;
	int epoll_fd;
	int interrupt_fd;
	pthread_mutex_t lock;
	struct source_ibs_record *ibs; /* under the lock; NULL until there is a ring of IBS */
	struct entry *entries;         /* from here on under the lock */
	size_t n_entries, room;
	uint64_t last_id;
};

struct reader *reader_new(const struct reader_params *params)
{
	struct epoll_event event = { .events = EPOLLIN, .data.u64 = INTERRUPT_ID };
	struct reader *reader;
	int saved;

	assert(params->shards >= 1 && params->shards <= READER_SHARDS_MAX);
	reader = calloc(1, sizeof(*reader));
	if (!reader)
		return NULL;
	reader->stats = params->stats;
	reader->shards = params->shards;
	reader->self_pid = params->self_pid;
	reader->interrupt_fd = -1;
	memcpy(reader->queues, params->queues, params->shards * sizeof(params->queues[0]));
	if (params->wakers)
		memcpy(reader->wakers, params->wakers, params->shards * sizeof(params->wakers[0]));
	pthread_mutex_init(&reader->lock, NULL);
	reader->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (reader->epoll_fd < 0)
		goto fail;
	reader->interrupt_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (reader->interrupt_fd < 0)
		goto fail;
	if (epoll_ctl(reader->epoll_fd, EPOLL_CTL_ADD, reader->interrupt_fd, &event) < 0)
		goto fail;
	return reader;

fail:
	saved = errno;
	reader_free(reader);
	errno = saved;
	return NULL;
}

void reader_free(struct reader *reader)
{
	if (!reader)
		return;
	if (reader->interrupt_fd >= 0)
		close(reader->interrupt_fd);
	if (reader->epoll_fd >= 0)
		close(reader->epoll_fd);
	pthread_mutex_destroy(&reader->lock);
	free(reader->entries);
	free(reader->ibs);
	free(reader);
}

static struct entry *find_entry(struct reader *reader, const struct source_ring *ring)
{
	for (size_t i = 0; i < reader->n_entries; i++)
		if (reader->entries[i].ring == ring)
			return &reader->entries[i];
	return NULL;
}

static int make_room(struct reader *reader)
{
	size_t room = reader->room ? reader->room * 2 : 16;
	struct entry *more;

	if (reader->n_entries < reader->room)
		return 0;
	more = realloc(reader->entries, room * sizeof(*more));
	if (!more)
		return -ENOMEM;
	reader->entries = more;
	reader->room = room;
	return 0;
}

/* One source is open at a time, so one decoder does for all of its rings. */
static int make_ibs_decoder(struct reader *reader, const struct source_ring *ring)
{
	if (!ring->ibs)
		return 0;
	if (!reader->ibs) {
		/* Its parts are in cache lines of their own. */
		reader->ibs = aligned_alloc(_Alignof(struct source_ibs_record), sizeof(*reader->ibs));
		if (!reader->ibs)
			return -ENOMEM;
	}
	return source_ibs_record_init(reader->ibs, ring->sample_type, ring->ibs);
}

static int add_locked(struct reader *reader, struct source_ring *ring)
{
	struct entry entry = { .ring = ring, .id = reader->last_id + 1, .fd = ring->fd };
	struct epoll_event event = { .events = EPOLLIN, .data.u64 = entry.id };
	int r;

	if (find_entry(reader, ring))
		return -EEXIST;
	r = make_room(reader);
	if (r == 0)
		r = make_ibs_decoder(reader, ring);
	if (r < 0)
		return r;
	if (entry.fd >= 0 && epoll_ctl(reader->epoll_fd, EPOLL_CTL_ADD, entry.fd, &event) < 0) {
		if (errno != EPERM)
			return -errno;
		entry.fd = -1;
	}
	reader->last_id = entry.id;
	reader->entries[reader->n_entries++] = entry;
	return 0;
}

int reader_add_ring(struct reader *reader, struct source_ring *ring)
{
	int r = decode_supports(ring->sample_type);

	if (r < 0)
		return r;
	pthread_mutex_lock(&reader->lock);
	r = add_locked(reader, ring);
	pthread_mutex_unlock(&reader->lock);
	return r;
}

/* true when @addr can't be one of a process: on x86-64 that half is below 2^47, or 2^56 with five levels. */
static bool is_kernel_address(uint64_t addr)
{
	return addr >> 56 != 0;
}

/* STAT_MAX: nothing speaks against it. */
static enum stat_id why_discard(const struct reader *reader, const struct decode_sample *decoded)
{
	unsigned int mode = decoded->misc & PERF_RECORD_MISC_CPUMODE_MASK;

	/* First of all: then addresses are the guest's, and pid is the virtual machine's. */
	if (mode == PERF_RECORD_MISC_GUEST_KERNEL || mode == PERF_RECORD_MISC_GUEST_USER)
		return STAT_DISCARDED_GUEST;
	/* 0: the idle task, or a process that our pid namespace doesn't show; -1: exiting. */
	if (decoded->pid == 0 || decoded->pid == UINT32_MAX)
		return STAT_DISCARDED_NO_PID;
	if (decoded->pid == reader->self_pid)
		return STAT_DISCARDED_SELF;
	if (decoded->addr == 0)
		return STAT_DISCARDED_NO_ADDRESS;
	if (is_kernel_address(decoded->addr))
		return STAT_DISCARDED_KERNEL;
	if (decoded->phys_addr == 0)
		return STAT_DISCARDED_NO_PHYS;
	return STAT_MAX;
}

static uint32_t access_flags(uint64_t data_src)
{
	uint64_t op = data_src >> PERF_MEM_OP_SHIFT;
	uint32_t flags = 0;

	if (op & PERF_MEM_OP_LOAD)
		flags |= SAMPLE_LOAD;
	if (op & PERF_MEM_OP_STORE)
		flags |= SAMPLE_STORE;
	return flags;
}

static void make_sample(const struct source_ring *ring, const struct decode_sample *decoded, struct sample *ret)
{
	*ret = (struct sample){
		.time_ns = decoded->time_ns,
		.addr = decoded->addr,
		.phys = decoded->phys_addr,
		.pid = decoded->pid,
		.latency = decoded->weight > UINT32_MAX ? UINT32_MAX : (uint32_t)decoded->weight,
		.cpu = (uint16_t)(decoded->present & PERF_SAMPLE_CPU ? decoded->cpu : (uint32_t)ring->cpu),
		.page_shift = sample_page_shift(decoded->data_page_bytes),
		.source = (uint8_t)ring->source,
		.flags = ring->sample_flags | access_flags(decoded->data_src),
	};
}

/* What a drain came to. Counted here, and in the stats slot at its end. */
struct drained {
	uint64_t handed_on, queue_full;
	uint64_t wake; /* a bit for each shard that has something to do */
	uint64_t ibs;  /* records of an IBS unit, and what is counted of them */
	struct source_ibs_seen seen;
};

_Static_assert(READER_SHARDS_MAX <= 64, "a bit for each shard");

static void hand_on(struct reader *reader, const struct sample *sample, struct drained *drained)
{
	unsigned int shard = hotness_shard(sample->pid, sample->addr, reader->shards);
	struct sample *slot = sample_queue_slot(reader->queues[shard]);

	/* Also when it is full: then its collector has all the more to do. */
	drained->wake |= 1ULL << shard;
	if (!slot) {
		drained->queue_full++;
		return;
	}
	*slot = *sample;
	sample_queue_put(reader->queues[shard]);
	drained->handed_on++;
}

/* By where the data of a load came from, the three classes that the kernel's pghot counts; STAT_MAX: none of them. */
static enum stat_id level_of(enum ibs_source source)
{
	switch (source) {
	case IBS_SOURCE_DRAM:
	case IBS_SOURCE_DRAM_FAR:
	case IBS_SOURCE_PMEM:
		return STAT_HW_DRAM;
	case IBS_SOURCE_EXT_MEM:
		return STAT_HW_EXT_MEM;
	case IBS_SOURCE_L1:
	case IBS_SOURCE_L2:
	case IBS_SOURCE_LINE_FILL:
	case IBS_SOURCE_L3:
	case IBS_SOURCE_LOCAL_CACHE:
	case IBS_SOURCE_PEER_CACHE_NEAR:
	case IBS_SOURCE_PEER_CACHE_FAR:
		return STAT_HW_CACHE;
	default:
		return STAT_MAX;
	}
}

static void count_drained(struct reader *reader, const struct drained *drained)
{
	stats_add(reader->stats, STAT_DROPPED_QUEUE_FULL, drained->queue_full);
	if (drained->ibs == 0)
		return;
	stats_add(reader->stats, STAT_TOTAL, drained->ibs);
	stats_add(reader->stats, STAT_HWHINTS, drained->ibs);
	stats_add(reader->stats, STAT_HW_PHYS_CLEARED, drained->seen.phys[IBS_PHYS_CLEARED]);
	stats_add(reader->stats, STAT_HW_PHYS_ZEROED, drained->seen.phys[IBS_PHYS_ZEROED]);
	for (int source = 0; source < IBS_SOURCES; source++) {
		enum stat_id level = level_of((enum ibs_source)source);

		if (level != STAT_MAX)
			stats_add(reader->stats, level, drained->seen.source[source]);
	}
}

/*
 * Where there is one collector, plain samples like the last one, as most are, straight from the ring into its queue's
 * slots: up to the first record that is anything else, or one that finds no slot. Returns how many.
 */
static uint64_t take_alone(struct reader *reader, const unsigned char *row, size_t left, int cpu,
			   struct source_ibs_seen *seen)
{
	struct source_ibs_record *record = reader->ibs;
	struct sample_queue *queue = reader->queues[0];
	const uint64_t bytes = source_ibs_quick_bytes(record);
	uint64_t n = 0;
	size_t room, k;

	do {
		struct sample *slot = sample_queue_row(queue, &room);

		for (k = 0; k < room && left >= bytes; k++, row += bytes, left -= bytes)
			if (!source_ibs_quick(record, row, cpu, &slot[k], seen))
				break;
		sample_queue_put_row(queue, k);
		n += k;
	} while (k > 0 && k == room);
	return n;
}

/* The same for any number of collectors; a sample that finds no slot is counted. *@ret_full: how many these are. */
static uint64_t take_dealt(struct reader *reader, const unsigned char *row, size_t left, int cpu,
			   struct drained *drained, uint64_t *ret_full)
{
	struct source_ibs_record *record = reader->ibs;
	const uint64_t bytes = source_ibs_quick_bytes(record);
	const unsigned int shards = reader->shards;
	uint64_t n = 0, full = 0, wake = 0;
	struct sample nowhere, *slot;
	unsigned int shard;

	for (; left >= bytes; row += bytes, left -= bytes) {
		shard = hotness_shard(source_ibs_quick_pid(row), source_ibs_quick_addr(row), shards);
		slot = sample_queue_slot(reader->queues[shard]);
		if (!source_ibs_quick(record, row, cpu, slot ? slot : &nowhere, &drained->seen))
			break;
		if (slot)
			sample_queue_put(reader->queues[shard]);
		else
			full++;
		wake |= 1ULL << shard;
		n++;
	}
	drained->wake |= wake;
	*ret_full = full;
	return n;
}

/* Plain samples like the last one, up to the first record that is anything else. */
static void take_ibs_row(struct reader *reader, const struct source_ring *ring, struct drained *drained)
{
	const uint64_t bytes = source_ibs_quick_bytes(reader->ibs);
	uint64_t n = 0, full = 0;
	size_t left;
	const unsigned char *row = perf_ring_row(ring->ring, &left);

	if (left < bytes)
		return;
	if (reader->shards == 1) {
		n = take_alone(reader, row, left, ring->cpu, &drained->seen);
		drained->wake |= n > 0;
	}
	/* What is left of it, if that one stopped for want of a slot. */
	n += take_dealt(reader, row + n * bytes, left - n * bytes, ring->cpu, drained, &full);
	drained->ibs += n;
	drained->handed_on += n - full;
	drained->queue_full += full;
	perf_ring_skip(ring->ring, n * bytes);
}

static void take_ibs(struct reader *reader, struct source_ring *ring, const struct perf_event_header *header,
		     struct drained *drained)
{
	static const enum stat_id cause[IBS_DISCARDS] = {
		[IBS_DISCARD_GUEST] = STAT_DISCARDED_GUEST,       [IBS_DISCARD_NO_PID] = STAT_DISCARDED_NO_PID,
		[IBS_DISCARD_SELF] = STAT_DISCARDED_SELF,         [IBS_DISCARD_NO_ACCESS] = STAT_DISCARDED_NO_ACCESS,
		[IBS_DISCARD_PREFETCH] = STAT_DISCARDED_PREFETCH, [IBS_DISCARD_NO_ADDRESS] = STAT_DISCARDED_NO_ADDRESS,
		[IBS_DISCARD_KERNEL] = STAT_DISCARDED_KERNEL,     [IBS_DISCARD_NO_PHYS] = STAT_DISCARDED_NO_PHYS,
	};
	struct source_ibs_record *record = reader->ibs;
	struct sample sample;
	enum ibs_discard why;

	if (source_ibs_record_take(record, header) < 0) {
		stats_inc(reader->stats, STAT_BAD_RECORDS);
		/* For a person to read: nothing else depends on it, so no order. */
		atomic_store_explicit(&ring->misfit, source_ibs_record_misfit(record, header), memory_order_relaxed);
		return;
	}
	drained->ibs++;
	drained->seen.source[record->op.source]++;
	why = ibs_to_sample(&record->decoder, &record->decoded, &record->op, ring->cpu, &sample);
	if (why == IBS_KEEP || why == IBS_DISCARD_NO_PHYS)
		drained->seen.phys[ibs_phys_of(&record->op)]++;
	if (why != IBS_KEEP)
		stats_inc(reader->stats, cause[why]);
	else
		hand_on(reader, &sample, drained);
}

static void take_sample(struct reader *reader, struct source_ring *ring, const struct perf_event_header *header,
			struct drained *drained)
{
	struct decode_sample decoded;
	struct sample sample;
	enum stat_id why;

	if (decode_sample(ring->sample_type, header, &decoded) < 0) {
		stats_inc(reader->stats, STAT_BAD_RECORDS);
		return;
	}
	stats_inc(reader->stats, STAT_TOTAL);
	stats_inc(reader->stats, ring->source == SAMPLE_SOURCE_HINT_FAULTS ? STAT_HINTFAULTS : STAT_HWHINTS);
	why = why_discard(reader, &decoded);
	if (why != STAT_MAX) {
		stats_inc(reader->stats, why);
		return;
	}
	make_sample(ring, &decoded, &sample);
	hand_on(reader, &sample, drained);
}

static void take_record(struct reader *reader, struct source_ring *ring, const struct perf_event_header *header,
			struct drained *drained)
{
	uint64_t lost;

	switch (header->type) {
	case PERF_RECORD_SAMPLE:
		(ring->ibs ? take_ibs : take_sample)(reader, ring, header, drained);
		break;
	case PERF_RECORD_LOST:
	case PERF_RECORD_LOST_SAMPLES:
		if (decode_lost(header, &lost) < 0)
			stats_inc(reader->stats, STAT_BAD_RECORDS);
		else
			stats_add(reader->stats, STAT_LOST, lost);
		break;
	case PERF_RECORD_THROTTLE:
		stats_inc(reader->stats, STAT_THROTTLED);
		break;
	case PERF_RECORD_UNTHROTTLE:
		break; /* the other half of one that is counted */
	default:
		stats_inc(reader->stats, STAT_OTHER_RECORDS);
		break;
	}
}

/* With the lock held, which is what makes us the one writer of the queues. */
static size_t drain_locked(struct reader *reader, struct source_ring *ring)
{
	const struct perf_event_header *header;
	struct drained drained = { 0 };
	int bad = 0;

	perf_ring_begin(ring->ring);
	do {
		if (ring->ibs)
			take_ibs_row(reader, ring, &drained);
		header = perf_ring_next(ring->ring, &bad);
		if (header)
			take_record(reader, ring, header, &drained);
	} while (header);
	perf_ring_end(ring->ring);
	if (bad)
		stats_inc(reader->stats, STAT_BAD_RECORDS);
	count_drained(reader, &drained);
	for (; drained.wake; drained.wake &= drained.wake - 1) {
		int shard = __builtin_ctzll(drained.wake);

		sample_queue_publish(reader->queues[shard]);
		if (reader->wakers[shard])
			waker_wake(reader->wakers[shard]);
	}
	return drained.handed_on;
}

size_t reader_drain(struct reader *reader, struct source_ring *ring)
{
	size_t n;

	pthread_mutex_lock(&reader->lock);
	n = drain_locked(reader, ring);
	pthread_mutex_unlock(&reader->lock);
	return n;
}

/* Take @entry out of the epoll set. It was put in, so this can fail only when the descriptor was closed: out as well.
 */
static void stop_waiting(struct reader *reader, struct entry *entry)
{
	if (entry->fd >= 0)
		(void)epoll_ctl(reader->epoll_fd, EPOLL_CTL_DEL, entry->fd, NULL);
	entry->fd = -1;
}

void reader_remove_ring(struct reader *reader, struct source_ring *ring)
{
	struct entry *entry;

	pthread_mutex_lock(&reader->lock);
	entry = find_entry(reader, ring);
	if (entry) {
		stop_waiting(reader, entry);
		drain_locked(reader, ring);
		*entry = reader->entries[--reader->n_entries];
	}
	pthread_mutex_unlock(&reader->lock);
}

static void hung_up(struct reader *reader, uint64_t id)
{
	for (size_t i = 0; i < reader->n_entries; i++)
		if (reader->entries[i].id == id)
			stop_waiting(reader, &reader->entries[i]);
}

static void take_event(struct reader *reader, const struct epoll_event *event)
{
	uint64_t count;

	if (event->data.u64 == INTERRUPT_ID) {
		/* Fails when it is 0 again, which is as good. */
		if (read(reader->interrupt_fd, &count, sizeof(count)) < 0)
			return;
	} else if (event->events & (EPOLLHUP | EPOLLERR)) {
		hung_up(reader, event->data.u64);
	}
}

int reader_step(struct reader *reader, int timeout_ms)
{
	struct epoll_event events[EVENTS_MAX];
	size_t handed_on = 0;
	int n = epoll_wait(reader->epoll_fd, events, EVENTS_MAX, timeout_ms);

	if (n < 0 && errno != EINTR)
		return -errno;
	pthread_mutex_lock(&reader->lock);
	for (int i = 0; i < n; i++)
		take_event(reader, &events[i]);
	for (size_t i = 0; i < reader->n_entries; i++)
		handed_on += drain_locked(reader, reader->entries[i].ring);
	pthread_mutex_unlock(&reader->lock);
	return handed_on > INT_MAX ? INT_MAX : (int)handed_on;
}

void reader_interrupt(struct reader *reader)
{
	uint64_t one = 1;

	/* Fails at 2^64 - 1 unread ones, when it is readable anyway. */
	if (write(reader->interrupt_fd, &one, sizeof(one)) < 0)
		return;
}
