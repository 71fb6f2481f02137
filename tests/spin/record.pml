/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The protocol of the record word in hotmap.h and of a region's removal in regions.h, on one page of physical memory:
 * two collectors count accesses in its word, the chunk that holds the word is replaced by a larger one meanwhile, a
 * migrator scans and takes, and the janitor removes the region that the word names, after which its slot is somebody
 * else's. Held:
 *
 *   - no count is lost: what was counted is in the word, was taken, or was cleared by the janitor
 *   - a word never names a region of another owner than the one whose sample made it: when the slot is free, no word
 *     names it and nobody who could act on such a word is left
 *   - nobody looks at a chunk that was freed
 *   - a word that is ready has its marks, so that the next scan finds it
 *
 * Words, marks and the hash change by one atomic operation each, of which the processors agree on the order: all are
 * read-modify-writes with acquire and release, or are looked at with acquire. So what is left to be explored is which
 * comes when. That is too much for all five at once, so there are searches with some of them:
 * search: REMOVAL the collectors, the migrator and the janitor
 * search: GROWTH the collectors, the migrator, and the chunk replaced
 * search: BOTH one collector, the migrator, the janitor, and the chunk replaced
 *
 * Broken on purpose, each must be found:
 * broken: NO_GRACE_1,REMOVAL the words are swept before those who hold the region are gone
 * broken: NO_GRACE_2,REMOVAL the slot is freed before those who hold a word are gone
 * broken: NO_SWEEP,REMOVAL the slot is freed without a look at the words
 * broken: BLIND_TAKE,REMOVAL the migrator clears the word with a store
 * broken: BLIND_SWEEP,REMOVAL the janitor clears the word with a store
 * broken: COPY_FIRST,GROWTH a growing chunk's word is copied and then frozen
 * broken: NO_RETIRE,GROWTH a chunk that was replaced is freed at once
 * broken: MARKS_LATE,GROWTH the scan clears the marks after it has looked at the word
 * broken: MARK_FIRST,GROWTH the collector marks before it has written the word
 */
#ifdef BOTH
#define COLLECTORS 1
#else
#define COLLECTORS 2
#endif
#define READERS    3 /* they, and the migrator */
#define MIGRATOR   2
#define ACCESSES   (me == 0 -> 2 : 1) /* of a collector */
#define SCANS      2
#define THRESHOLD  2 /* counts that make a record ready */
#define SLOTS      2 /* of regions */
#define NONE       SLOTS

/*
 * A word: slot of the region that it names (NONE: there is no record), life of that slot when it was made (what owner
 * and address are to the real ones; nobody but the assertions looks at it), counts. Two chunks, the second the larger.
 */
typedef word_t {
	byte slot, life, count;
	bool frozen
}
word_t word[2];
bool freed[2];
byte chunk;            /* that the section leads to */
bool lock_taken;       /* of the section */
bool chunk_mark, section_mark;

typedef region_t {
	bool used, linked, live;
	byte life
}
region_t region[SLOTS];

/* Read sections, and how many each reader has begun, so that a grace period waits for those that were there. */
bool inside[READERS];
bool begun[READERS]; /* the lowest bit of it */

byte uncleared; /* counts that were made and neither taken nor cleared */
byte ended;

inline enter(me) { atomic { inside[me] = true; begun[me] = !begun[me] } }

/* One after the other, and each as it was when its turn came: more than the real one promises waiting for, never less. */
inline grace(saved, i)
{
	i = 0;
	do
	:: i == READERS -> break
	:: i < READERS ->
		saved = begun[i];
		(!inside[i] || begun[i] != saved);
		i++
	od;
	i = 0;
	saved = 0
}

inline lock() { atomic { !lock_taken -> lock_taken = true } }
inline unlock() { lock_taken = false }

#define READY(w) (w.slot != NONE && w.count >= THRESHOLD)

init
{
	byte all;

	atomic {
		word[0].slot = NONE;
		word[1].slot = NONE;
		run collector(0);
#ifndef BOTH
		run collector(1);
#endif
		run migrator();
#ifndef GROWTH
		run janitor();
		all++;
#endif
#ifndef REMOVAL
		run grower();
		all++;
#endif
		all = all + COLLECTORS + 1
	}
	ended == all;
	/* All is quiet. */
	assert(uncleared == (word[chunk].slot == NONE -> 0 : word[chunk].count));
	assert(!READY(word[chunk]) || (chunk_mark && section_mark))
}

/* The region of the sample: the one that is linked, or a new one in a free slot. Both collectors are of one shard here. */
inline find_region(mine)
{
	atomic {
		if
		:: region[0].linked -> mine = 0
		:: region[1].linked -> mine = 1
		:: else ->
			if
			:: !region[0].used -> mine = 0
			:: else -> assert(!region[1].used); mine = 1
			fi;
			region[mine].used = true;
			region[mine].linked = true;
			region[mine].live = true;
			region[mine].life++
		fi
	}
}

proctype collector(byte me)
{
	byte n, mine, c, my_life, new_slot, new_life;
	word_t old;
	bool became_ready, written;

	do
	:: n == ACCESSES -> break
	:: n < ACCESSES ->
		enter(me);
		find_region(mine);
		/* We hold it: it keeps this life as long as we are here. */
		my_life = region[mine].life;
		written = false;
		do
		:: written -> break
		:: else ->
			c = chunk;
			atomic {
				assert(!freed[c]);
				old.slot = word[c].slot; old.life = word[c].life;
				old.count = word[c].count; old.frozen = word[c].frozen
			}
			if
			:: old.frozen -> chunk != c /* wait for the lock of who replaces it, and begin again */
			:: else ->
#ifdef MARK_FIRST
				if
				:: old.slot != NONE && old.count + 1 >= THRESHOLD -> chunk_mark = true; section_mark = true
				:: else
				fi;
#endif
				atomic { /* another one's record stays its, while that one lives */
					new_slot = mine;
					new_life = my_life;
					if
					:: old.slot != NONE && old.slot != mine && region[old.slot].live ->
						assert(old.life == region[old.slot].life);
						new_slot = old.slot;
						new_life = old.life
					:: else
					fi
				}
				atomic { /* W1: compare and swap */
					assert(!freed[c]);
					if
					:: word[c].slot == old.slot && word[c].life == old.life &&
					   word[c].count == old.count && !word[c].frozen ->
						word[c].slot = new_slot;
						word[c].life = new_life;
						word[c].count = (old.slot == NONE -> 1 : old.count + 1);
						became_ready = READY(word[c]) && !(old.slot != NONE && old.count >= THRESHOLD);
						uncleared++;
						written = true
					:: else
					fi
				}
			fi
		od;
#ifndef MARK_FIRST
		if
		:: became_ready -> chunk_mark = true; section_mark = true /* M1 */
		:: else
		fi;
#endif
		atomic {
			inside[me] = false;
			became_ready = false; mine = 0; c = 0; my_life = 0; new_slot = 0; new_life = 0; written = false;
			old.slot = 0; old.life = 0; old.count = 0; old.frozen = false;
			n++
		}
	od;
	atomic { n = 0; ended++ }
}

/* What the scan does with one word that is ready. */
inline visit(c, old, seen_live)
{
	atomic {
		assert(!freed[c]);
		old.slot = word[c].slot; old.life = word[c].life;
		old.count = word[c].count; old.frozen = word[c].frozen
	}
	if
	:: old.frozen -> chunk_mark = true; section_mark = true /* the next scan sees the new chunk */
	:: !old.frozen && READY(old) ->
		atomic {
			/* Whom it names, K2. A slot that was given away since would be mistaken for it. */
			seen_live = region[old.slot].live;
			assert(!seen_live || region[old.slot].life == old.life)
		}
		/* Shown to the policy here; then taken, whether it is live or stale. */
		atomic { /* W1 */
			assert(!freed[c]);
#ifdef BLIND_TAKE
			if
			:: !word[c].frozen ->
#else
			if
			:: word[c].slot == old.slot && word[c].life == old.life && word[c].count == old.count &&
			   !word[c].frozen ->
#endif
				assert(uncleared >= old.count);
				uncleared = uncleared - old.count;
				word[c].slot = NONE; word[c].life = 0; word[c].count = 0
			:: else -> chunk_mark = true; section_mark = true /* shown again */
			fi
		}
	:: else
	fi
}

proctype migrator()
{
	byte n, c;
	word_t old;
	bool seen_live;

	do
	:: n == SCANS -> break
	:: n < SCANS ->
		enter(MIGRATOR);
		if
		:: section_mark ->
			section_mark = false; /* M2 */
			if
			:: chunk_mark ->
#ifdef MARKS_LATE
				c = chunk;
				visit(c, old, seen_live);
				chunk_mark = false
#else
				chunk_mark = false;
				c = chunk;
				visit(c, old, seen_live)
#endif
			:: else
			fi;
			/* What came meanwhile. */
			if
			:: chunk_mark -> section_mark = true
			:: else
			fi
		:: else
		fi;
		atomic {
			inside[MIGRATOR] = false;
			c = 0; old.slot = 0; old.life = 0; old.count = 0; old.frozen = false; seen_live = false;
			n++
		}
	od;
	atomic { n = 0; ended++ }
}

/* Forced removal of whatever region is linked, in the four steps of regions.h. */
proctype janitor()
{
	byte slot, i, c;
	bool saved;
	word_t old;

	if
	:: region[0].linked -> slot = 0
	:: region[1].linked -> slot = 1
	:: ended >= COLLECTORS -> slot = NONE /* there was none when we came */
	fi;
	if
	:: slot != NONE ->
		atomic { region[slot].linked = false; region[slot].live = false } /* regions_unlink() */
#ifndef NO_GRACE_1
		grace(saved, i);
#endif
#ifndef NO_SWEEP
		lock();
		c = chunk;
		do
		:: atomic {
			old.slot = word[c].slot; old.life = word[c].life; old.count = word[c].count
			}
			if
			:: old.slot == NONE || region[old.slot].live -> break
			:: else ->
				atomic { /* W1 */
					if
#ifdef BLIND_SWEEP
					:: true ->
#else
					:: word[c].slot == old.slot && word[c].life == old.life &&
					   word[c].count == old.count ->
#endif
						assert(uncleared >= old.count);
						uncleared = uncleared - old.count;
						word[c].slot = NONE; word[c].life = 0; word[c].count = 0;
						break
					:: else
					fi
				}
			fi
		od;
		unlock();
#endif
#ifndef NO_GRACE_2
		grace(saved, i);
#endif
		atomic { /* regions_release(); at once, the slot is a region's of another owner */
			assert(word[chunk].slot != slot);
			region[slot].live = true;
			region[slot].life++
		}
	:: else
	fi;
	atomic { slot = 0; c = 0; old.slot = 0; old.life = 0; old.count = 0; ended++ }
}

/* A first sample of another page of the chunk finds it full: a larger one takes its place. */
proctype grower()
{
	byte i;
	bool saved;

	lock();
	if
	:: true ->
#ifdef COPY_FIRST
		atomic { word[1].slot = word[0].slot; word[1].life = word[0].life; word[1].count = word[0].count }
		word[0].frozen = true;
#else
		atomic { /* the or gives what was there */
			word[0].frozen = true;
			word[1].slot = word[0].slot; word[1].life = word[0].life; word[1].count = word[0].count
		}
#endif
		chunk = 1; /* C1 */
		unlock();
#ifndef NO_RETIRE
		grace(saved, i);
#endif
		freed[0] = true
	:: unlock() /* it may as well stay */
	fi;
	ended++
}
