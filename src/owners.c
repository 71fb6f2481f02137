/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "owners.h"
#include "owners_map.h"
#include "parse.h"
#include "rcu.h"

#define BUCKETS     16384U /* by pid; with 100,000 busy processes six to a bucket */
#define ABSENT      1024U
#define ABSENT_NS   NSEC_PER_SEC
#define TICK_SHIFT  20 /* times of absence in steps of 2^20 ns, 1 ms; 31 bits of them are 26 days */
#define TICK_MASK   ((1U << 31) - 1)
#define PF_KTHREAD  0x00200000u /* include/linux/sched.h */
#define STAT_BYTES  2048        /* 52 numbers and a name; a kernel thread's name can be longer than 16 */
#define FIELD_STATE 3           /* proc_pid_stat(5) */
#define FIELD_FLAGS 9
#define FIELD_START 22
#define NO_SLOT     UINT32_MAX

struct entry {
	struct owner owner;
	_Atomic(struct entry *) next; /* in its bucket; N1 release pairs with N2 acquire */
	struct entry *doomed;         /* the janitor's list */
	bool unlinked;                /* the janitor's: in no bucket any more */
};

struct owners {
	struct fsroot root;
	uint32_t self_pid;
	pthread_mutex_t lock; /* writers of the structure: buckets, slots, the free list */
	uint32_t first_free;
	uint32_t *next_free;            /* of a free slot */
	_Atomic(struct entry *) *slots; /* L1 release pairs with L2 acquire; taken by the page, as next_free */
	_Atomic uint32_t end;           /* one past the highest slot that ever was; relaxed, grows */
	_Atomic size_t n;               /* gauge, relaxed */
	uint32_t sweep_at;              /* the janitor's */
	_Atomic(struct entry *) buckets[BUCKETS]; /* N1, N2 */
	/* Pids without a process that counts: pid << 32 | is it a kernel thread << 31 | when. Relaxed: each is one
	 * word, and one that was overwritten costs a read. Bounded, however many pids come. */
	_Atomic uint64_t absent[ABSENT];
};

struct owners *owners_new(const struct fsroot *proc, uint32_t self_pid)
{
	struct owners *owners = calloc(1, sizeof(*owners));

	if (!owners)
		return NULL;
	pthread_mutex_init(&owners->lock, NULL);
	owners->root = *proc;
	owners->self_pid = self_pid;
	owners->first_free = NO_SLOT;
	/* Of this size, they come from the kernel, zeroed, and take memory when they are used. */
	owners->next_free = calloc(OWNERS_MAX, sizeof(*owners->next_free));
	owners->slots = calloc(OWNERS_MAX, sizeof(*owners->slots));
	if (!owners->next_free || !owners->slots) {
		owners_free(owners);
		return NULL;
	}
	return owners;
}

static void free_entry(struct entry *e)
{
	if (!e)
		return;
	/* Nobody has it any more, so nobody stores a snapshot. */
	owners_map_free(atomic_load_explicit(&e->owner.map, memory_order_relaxed));
	free(e);
}

void owners_free(struct owners *owners)
{
	if (!owners)
		return;
	for (uint32_t slot = 0; slot < atomic_load_explicit(&owners->end, memory_order_relaxed); slot++)
		free_entry(atomic_load_explicit(&owners->slots[slot], memory_order_relaxed));
	free(owners->slots);
	free(owners->next_free);
	pthread_mutex_destroy(&owners->lock);
	free(owners);
}

uint32_t owners_self_pid(const struct owners *owners)
{
	return owners->self_pid;
}

/* What /proc/PID/stat says of a process. */
struct stat_line {
	char state;
	uint64_t flags;
	uint64_t start_ticks;
	char comm[16];
};

/* The name stands in brackets and may itself hold brackets and spaces: it ends with the last one. */
static int parse_stat(char *text, struct stat_line *ret)
{
	char *open = strchr(text, '('), *close = strrchr(text, ')'), *save = NULL;
	int field = FIELD_STATE;
	bool have_flags = false;
	size_t length;

	*ret = (struct stat_line){ 0 };
	if (!open || !close || close < open)
		return -EBADMSG;
	length = (size_t)(close - open - 1);
	memcpy(ret->comm, open + 1, length < sizeof(ret->comm) ? length : sizeof(ret->comm) - 1);
	for (char *token = strtok_r(close + 1, " ", &save); token; token = strtok_r(NULL, " ", &save), field++) {
		if (field == FIELD_STATE)
			ret->state = token[0];
		else if (field == FIELD_FLAGS)
			have_flags = parse_u64(token, 0, UINT64_MAX, &ret->flags) == 0;
		else if (field == FIELD_START)
			return have_flags ? parse_u64(token, 0, UINT64_MAX, &ret->start_ticks) : -EBADMSG;
	}
	return -EBADMSG;
}

/*
 * 0; -ESRCH: there is no such process, or it is a zombie, which has no memory; -EPERM: a kernel thread; -ENOMEM: it
 * can't be told now.
 */
static int read_stat(const struct owners *owners, uint32_t pid, struct stat_line *ret)
{
	char text[STAT_BYTES];
	int r = fsroot_read(&owners->root, text, sizeof(text), "proc/%u/stat", pid);

	if (r == -ENOMEM || r == -EMFILE || r == -ENFILE || r == -EINTR || r == -EAGAIN)
		return -ENOMEM;
	if (r < 0)
		return -ESRCH;
	r = parse_stat(text, ret);
	if (r < 0 || ret->state == 'Z' || ret->state == 'X')
		return -ESRCH;
	return ret->flags & PF_KTHREAD ? -EPERM : 0;
}

static _Atomic(struct entry *) *bucket_of(struct owners *owners, uint32_t pid)
{
	return &owners->buckets[pid * UINT32_C(0x9e3779b1) >> 18];
}

_Static_assert(BUCKETS == 1U << (32 - 18), "the hash gives 14 bits");

static struct entry *find(struct owners *owners, uint32_t pid)
{
	struct entry *e = atomic_load_explicit(bucket_of(owners, pid), memory_order_acquire); /* N2 */

	/* One that is gone may still be there, with another process of the same pid. */
	for (; e; e = atomic_load_explicit(&e->next, memory_order_acquire)) /* N2 */
		if (e->owner.pid == pid && atomic_load_explicit(&e->owner.state, memory_order_relaxed) == OWNER_ALIVE)
			return e;
	return NULL;
}

static uint32_t tick_of(uint64_t now_ns)
{
	return (uint32_t)(now_ns >> TICK_SHIFT) & TICK_MASK;
}

/* -ESRCH or -EPERM when @pid was looked for less than a second ago, else 0. */
static int look_up_absent(const struct owners *owners, uint32_t pid, uint64_t now_ns)
{
	uint64_t word = atomic_load_explicit(&owners->absent[pid % ABSENT], memory_order_relaxed);
	uint32_t ticks = (tick_of(now_ns) - (uint32_t)word) & TICK_MASK;

	if (word >> 32 != pid || ticks >= ABSENT_NS >> TICK_SHIFT)
		return 0;
	return word & ~TICK_MASK & UINT32_MAX ? -EPERM : -ESRCH;
}

static void note_absent(struct owners *owners, uint32_t pid, int r, uint64_t now_ns)
{
	uint64_t word = (uint64_t)pid << 32 | (r == -EPERM ? ~TICK_MASK : 0) | tick_of(now_ns);

	atomic_store_explicit(&owners->absent[pid % ABSENT], word, memory_order_relaxed);
}

/* Under the lock. */
static int take_slot(struct owners *owners, uint32_t *ret)
{
	uint32_t end = atomic_load_explicit(&owners->end, memory_order_relaxed);

	if (owners->first_free != NO_SLOT) {
		*ret = owners->first_free;
		owners->first_free = owners->next_free[*ret];
		return 0;
	}
	if (end == OWNERS_MAX)
		return -ENOMEM;
	*ret = end;
	atomic_store_explicit(&owners->end, end + 1, memory_order_relaxed);
	return 0;
}

/* Put @e into the table, unless another collector was first: then *@ret is that one's. */
static int insert(struct owners *owners, struct entry *e, struct entry **ret)
{
	_Atomic(struct entry *) *bucket = bucket_of(owners, e->owner.pid);
	int r = 0;

	pthread_mutex_lock(&owners->lock);
	*ret = find(owners, e->owner.pid);
	if (*ret)
		goto out;
	r = take_slot(owners, &e->owner.slot);
	if (r < 0)
		goto out;
	atomic_init(&e->next, atomic_load_explicit(bucket, memory_order_relaxed));
	atomic_store_explicit(&owners->slots[e->owner.slot], e, memory_order_release); /* L1 */
	atomic_store_explicit(bucket, e, memory_order_release);                        /* N1 */
	atomic_fetch_add_explicit(&owners->n, 1, memory_order_relaxed);
	*ret = e;
out:
	pthread_mutex_unlock(&owners->lock);
	return r;
}

int owners_get(struct owners *owners, uint32_t pid, uint64_t now_ns, struct owner **ret)
{
	struct entry *e = find(owners, pid), *mine;
	struct stat_line line;
	int r;

	if (e) {
		*ret = &e->owner;
		return 0;
	}
	if (pid == owners->self_pid)
		return -EPERM;
	r = look_up_absent(owners, pid, now_ns);
	if (r < 0)
		return r;
	r = read_stat(owners, pid, &line);
	if (r == -ESRCH || r == -EPERM)
		note_absent(owners, pid, r, now_ns);
	if (r < 0)
		return r;
	mine = calloc(1, sizeof(*mine));
	if (!mine)
		return -ENOMEM;
	mine->owner.pid = pid;
	mine->owner.start_ticks = line.start_ticks;
	memcpy(mine->owner.comm, line.comm, sizeof(mine->owner.comm));
	r = insert(owners, mine, &e);
	if (e != mine)
		free(mine);
	if (r < 0)
		return r;
	*ret = &e->owner;
	return 0;
}

struct owner *owners_at(const struct owners *owners, uint32_t slot)
{
	struct entry *e;

	if (slot >= OWNERS_MAX)
		return NULL;
	e = atomic_load_explicit(&owners->slots[slot], memory_order_acquire); /* L2 */
	return e ? &e->owner : NULL;
}

static void mark_gone(struct owner *owner)
{
	atomic_store_explicit(&owner->state, OWNER_GONE, memory_order_relaxed);
}

void owners_mark_gone(struct owners *owners, uint32_t slot)
{
	struct owner *owner;

	rcu_enter();
	owner = owners_at(owners, slot);
	if (owner)
		mark_gone(owner);
	rcu_leave();
}

bool owners_check(struct owners *owners, uint32_t slot, uint32_t pid, uint64_t start_ticks)
{
	struct stat_line line;
	struct owner *owner;
	int r = read_stat(owners, pid, &line);

	if (r == 0 && line.start_ticks == start_ticks)
		return true;
	if (r == -ENOMEM)
		return false;
	rcu_enter();
	owner = owners_at(owners, slot);
	/* The slot may be another's by now. */
	if (owner && owner->pid == pid && owner->start_ticks == start_ticks)
		mark_gone(owner);
	rcu_leave();
	return false;
}

size_t owners_sweep(struct owners *owners, size_t max)
{
	uint32_t end = atomic_load_explicit(&owners->end, memory_order_relaxed);
	size_t marked = 0;

	for (uint32_t i = 0; i < end && max > 0; i++) {
		/* No read section: only this thread frees owners, in owners_reap(). */
		struct owner *owner;

		if (owners->sweep_at >= end)
			owners->sweep_at = 0;
		owner = owners_at(owners, owners->sweep_at++);
		if (!owner || atomic_load_explicit(&owner->state, memory_order_relaxed) != OWNER_ALIVE)
			continue;
		max--;
		owners_check(owners, owner->slot, owner->pid, owner->start_ticks);
		marked += atomic_load_explicit(&owner->state, memory_order_relaxed) != OWNER_ALIVE;
	}
	return marked;
}

/* Under the lock. */
static void unlink_entry(struct owners *owners, struct entry *e)
{
	_Atomic(struct entry *) *at = bucket_of(owners, e->owner.pid);

	for (struct entry *p; (p = atomic_load_explicit(at, memory_order_relaxed)) != e; at = &p->next)
		assert(p);
	/* Release: N1, what follows was set up. @e keeps its own pointer for those who stand on it. */
	atomic_store_explicit(at, atomic_load_explicit(&e->next, memory_order_relaxed), memory_order_release);
	e->unlinked = true;
}

static bool is_over(const struct entry *e)
{
	return atomic_load_explicit(&e->owner.state, memory_order_relaxed) == OWNER_GONE &&
	       atomic_load_explicit(&e->owner.regions, memory_order_relaxed) == 0;
}

/*
 * Three steps, since a collector that found an owner alive a moment ago may still make a region for it: out of the
 * buckets; after a grace period nobody has it from there, so one without regions stays so, and its slot is emptied;
 * after another nobody has it from its slot. One that got a region meanwhile waits for a later turn.
 */
size_t owners_reap(struct owners *owners)
{
	uint32_t end = atomic_load_explicit(&owners->end, memory_order_relaxed);
	struct entry *doomed = NULL, *e;
	size_t n = 0;

	pthread_mutex_lock(&owners->lock);
	for (uint32_t slot = 0; slot < end; slot++) {
		e = atomic_load_explicit(&owners->slots[slot], memory_order_relaxed);
		if (!e || !is_over(e))
			continue;
		if (!e->unlinked)
			unlink_entry(owners, e);
		e->doomed = doomed;
		doomed = e;
	}
	pthread_mutex_unlock(&owners->lock);
	if (!doomed)
		return 0;
	rcu_wait();
	for (struct entry **at = &doomed; (e = *at) != NULL;) {
		if (!is_over(e)) {
			*at = e->doomed;
			continue;
		}
		atomic_store_explicit(&owners->slots[e->owner.slot], NULL, memory_order_relaxed);
		at = &e->doomed;
	}
	rcu_wait();
	pthread_mutex_lock(&owners->lock);
	for (; doomed; n++) {
		e = doomed;
		doomed = e->doomed;
		owners->next_free[e->owner.slot] = owners->first_free;
		owners->first_free = e->owner.slot;
		free_entry(e);
	}
	pthread_mutex_unlock(&owners->lock);
	atomic_fetch_sub_explicit(&owners->n, n, memory_order_relaxed);
	return n;
}

/* No read section in these two: only this thread frees owners, in owners_reap(). */
void owners_sum_tally(const struct owners *owners, uint64_t over_bytes, struct owners_tally *ret)
{
	uint32_t end = atomic_load_explicit(&owners->end, memory_order_relaxed);

	*ret = (struct owners_tally){ 0 };
	for (uint32_t slot = 0; slot < end; slot++) {
		const struct owner *owner = owners_at(owners, slot);

		if (!owner || owner->tally_bytes <= over_bytes)
			continue;
		ret->owners++;
		ret->bytes += owner->tally_bytes;
		if (owner->tally_bytes > ret->most_bytes)
			ret->most_bytes = owner->tally_bytes;
	}
}

void owners_publish_tally(struct owners *owners)
{
	uint32_t end = atomic_load_explicit(&owners->end, memory_order_relaxed);

	for (uint32_t slot = 0; slot < end; slot++) {
		struct owner *owner = owners_at(owners, slot);

		if (!owner)
			continue;
		atomic_store_explicit(&owner->bytes, owner->tally_bytes, memory_order_relaxed);
		owner->tally_bytes = 0;
	}
}

uint32_t owners_end(const struct owners *owners)
{
	return atomic_load_explicit(&owners->end, memory_order_relaxed); /* a gauge that grows */
}

size_t owners_count(const struct owners *owners)
{
	return atomic_load_explicit(&owners->n, memory_order_relaxed);
}

int owners_for_each(const struct owners *owners, int (*fn)(void *ctx, const struct owner *owner), void *ctx)
{
	uint32_t end = atomic_load_explicit(&owners->end, memory_order_relaxed);

	for (uint32_t slot = 0; slot < end; slot++) {
		const struct owner *owner = owners_at(owners, slot);
		int r = owner ? fn(ctx, owner) : 0;

		if (r != 0)
			return r;
	}
	return 0;
}
