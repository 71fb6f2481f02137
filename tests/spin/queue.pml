/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The protocol of sample_queue.h: a ring with one writer and one reader, and four ordered accesses to its two indices.
 * Each sample comes out once, in order and whole, on a machine that reorders whatever the four don't forbid:
 *
 *   - a store of the writer reaches memory some time after it was made, in any order with other stores, except that
 *     those to one place keep theirs, and that a release store comes after all stores before it (P1)
 *   - a load of the reader that stands behind a load without acquire may be made before it (C1)
 *   - a release store comes after the loads before it; without release it may be seen before they are made (C2)
 *   - a load of the other side's index may give an older value
 *
 * P2, the acquire of tail, orders the check that a slot is free before the stores into it. No processor makes a store
 * visible before the branch that it depends on is decided, so its absence can't be seen here; the language asks for it.
 *
 * The writer publishes several samples at once: when so many as to a batch are due, and at the end of a row, which may
 * come at any time, and comes when the queue is full. Of the heads that it has published the last may overtake the
 * others on their way, but none comes before the slots that it speaks of.
 *
 * Counters count modulo 8, as the real ones modulo 2^64, and wrap.
 *
 * Broken on purpose, each must be found:
 * broken: NO_P1 head without release
 * broken: NO_C1 head without acquire
 * broken: NO_C2 tail without release
 * broken: ONE_TOO_MANY the writer takes a full ring for one with a free slot
 * broken: NO_COPY_UPDATE the reader goes on with its copy of head after it has used it up
 * broken: NO_ROW_END what is due at the end of a row is not published
 * broken: PUBLISH_FIRST a sample is published before its slot is written
 * broken: FULL_BY_HEAD the writer takes slots for free that are written and not published yet
 */
#define SLOTS   2
#define WRAP    8
#define SAMPLES 11 /* more than WRAP, and no multiple of BATCH */
#define BATCH   2
#define POP_MAX 2

#ifdef ONE_TOO_MANY
#define ROOM (SLOTS + 1)
#else
#define ROOM SLOTS
#endif

/* Memory, as both see it. */
byte slot[SLOTS];
byte head, tail;

/* Stores of the writer on their way: at most one to each slot, and heads in their order. */
bool slot_pending[SLOTS];
byte slot_value[SLOTS];
byte slot_push[SLOTS]; /* the push that it is of */
byte written;          /* so many slots, published or not */
byte head_issued;      /* the last head that was published */
chan heads = [3] of { byte };

bool writer_done, reader_done;

#define DISTANCE(a, b) (((a) + WRAP - (b)) % WRAP)

/* Something of push @n or of one before it has not reached memory. */
#define EARLIER_PENDING(n)                                                   \
	((slot_pending[0] && DISTANCE(n, slot_push[0]) < WRAP / 2) ||        \
	 (slot_pending[1] && DISTANCE(n, slot_push[1]) < WRAP / 2))

/* The writer's stores reach memory. */
active proctype memory()
{
	byte next;

end:
	do
	:: atomic { slot_pending[0] -> slot[0] = slot_value[0]; slot_pending[0] = false }
	:: atomic { slot_pending[1] -> slot[1] = slot_value[1]; slot_pending[1] = false }
	:: d_step { len(heads) > 1 -> heads?next; next = 0 } /* overtaken by the next one */
#ifdef NO_P1
	:: d_step { len(heads) > 0 -> heads?head }
#else
	:: atomic {
		heads?<next> ->
		if
		:: !EARLIER_PENDING((next + WRAP - 1) % WRAP) -> heads?head; next = 0 /* P1 */
		:: else -> next = 0
		fi
	   }
#endif
	:: writer_done && reader_done && len(heads) == 0 && !slot_pending[0] && !slot_pending[1] -> break
	od
}

inline publish()
{
	atomic {
		if
		:: head_issued != written -> head_issued = written; heads!written
		:: else
		fi
	}
}

#ifdef FULL_BY_HEAD
#define FULL (DISTANCE(head_issued, tail_seen) >= ROOM)
#else
#define FULL (DISTANCE(written, tail_seen) >= ROOM)
#endif

active proctype writer()
{
	byte tail_seen, pushed, at;

	do
	:: pushed == SAMPLES -> break
	:: pushed < SAMPLES ->
		if
		:: FULL -> tail_seen = tail /* P2 */
		:: else
		fi;
		if
		:: FULL ->
			/* There is no slot; tried again when there is something new to see, so that the model ends. */
#ifndef NO_ROW_END
			publish();
#endif
			tail != tail_seen
		:: else ->
#ifdef PUBLISH_FIRST
			written = (written + 1) % WRAP;
			publish();
			written = (written + WRAP - 1) % WRAP;
#endif
			atomic {
				at = written % SLOTS;
				/* Two stores to one slot keep their order; the first is there by now. */
				!slot_pending[at];
				slot_value[at] = pushed;
				slot_push[at] = written;
				slot_pending[at] = true
			}
			atomic {
				written = (written + 1) % WRAP;
				pushed++
			}
			if
			:: written % BATCH == 0 -> publish()
			:: written % BATCH != 0 /* the row goes on */
#ifndef NO_ROW_END
			:: written % BATCH != 0 -> publish() /* or ends */
#endif
			fi
		fi
	od;
#ifndef NO_ROW_END
	publish();
#endif
	writer_done = true
}

active proctype reader()
{
	byte head_seen, popped, early, n, i, at, my_tail;

	do
	:: popped == SAMPLES -> break
	:: popped < SAMPLES ->
#ifdef NO_C1
		early = slot[my_tail % SLOTS]; /* the first slot's load goes before that of head */
#endif
		if
#ifdef NO_COPY_UPDATE
		:: popped == 0 -> head_seen = head
#else
		:: DISTANCE(head_seen, my_tail) < POP_MAX -> head_seen = head /* C1; or an older value: */
		:: DISTANCE(head_seen, my_tail) < POP_MAX -> skip
#endif
		:: else
		fi;
		n = DISTANCE(head_seen, my_tail);
		if
		:: n == 0 -> head != head_seen /* empty; tried again when there is something new */
#ifdef NO_COPY_UPDATE
			; assert(popped == SAMPLES) /* it would never see that */
#endif
		:: else ->
			if
			:: n > POP_MAX -> n = POP_MAX
			:: else
			fi;
#ifdef NO_C2
			tail = (my_tail + n) % WRAP;
#endif
			i = 0;
			do
			:: i == n -> break
			:: i < n ->
				at = (my_tail + i) % SLOTS;
#ifdef NO_C1
				assert((i == 0 -> early : slot[at]) == popped);
#else
				assert(slot[at] == popped);
#endif
				popped++;
				i++
			od;
			my_tail = (my_tail + n) % WRAP;
			tail = my_tail /* C2 */
		fi
	od;
	reader_done = true
}
