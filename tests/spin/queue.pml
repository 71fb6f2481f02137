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
 * The writer publishes several samples at once; for the reader that is a head that reaches memory late.
 *
 * Counters count modulo 8, as the real ones modulo 2^64, and wrap.
 *
 * Broken on purpose, each must be found:
 * broken: NO_P1 head without release
 * broken: NO_C1 head without acquire
 * broken: NO_C2 tail without release
 * broken: ONE_TOO_MANY the writer takes a full ring for one with a free slot
 * broken: NO_COPY_UPDATE the reader goes on with its copy of head after it has used it up
 */
#define SLOTS   2
#define WRAP    8
#define SAMPLES 11 /* more than WRAP */
#define POP_MAX 2

#ifdef ONE_TOO_MANY
#define ROOM (SLOTS + 1)
#else
#define ROOM SLOTS
#endif

/* Memory, as both see it. */
byte slot[SLOTS];
byte head, tail;

/* Stores of the writer on their way: at most one to each slot, and head up to head_issued. */
bool slot_pending[SLOTS];
byte slot_value[SLOTS];
byte slot_push[SLOTS]; /* the push that it is of */
byte head_issued;

bool writer_done, reader_done;

#define DISTANCE(a, b) (((a) + WRAP - (b)) % WRAP)

/* Something of push @n or of one before it has not reached memory. */
#define EARLIER_PENDING(n)                                                   \
	((slot_pending[0] && DISTANCE(n, slot_push[0]) < WRAP / 2) ||        \
	 (slot_pending[1] && DISTANCE(n, slot_push[1]) < WRAP / 2))

/* The writer's stores reach memory. */
active proctype memory()
{
	byte i;

end:
	do
	:: atomic { slot_pending[0] -> slot[0] = slot_value[0]; slot_pending[0] = false }
	:: atomic { slot_pending[1] -> slot[1] = slot_value[1]; slot_pending[1] = false }
#ifdef NO_P1
	:: atomic { head != head_issued -> head = (head + 1) % WRAP }
#else
	:: atomic { head != head_issued && !EARLIER_PENDING(head) -> head = (head + 1) % WRAP } /* P1 */
#endif
	:: writer_done && reader_done && head == head_issued && !slot_pending[0] && !slot_pending[1] -> break
	od
}

active proctype writer()
{
	byte tail_seen, pushed, at;

	do
	:: pushed == SAMPLES -> break
	:: pushed < SAMPLES ->
		if
		:: DISTANCE(head_issued, tail_seen) >= ROOM -> tail_seen = tail /* P2 */
		:: else
		fi;
		if
		:: DISTANCE(head_issued, tail_seen) >= ROOM ->
			/* -ENOBUFS; tried again when there is something new to see, so that the model ends. */
			tail != tail_seen
		:: else ->
			atomic {
				at = head_issued % SLOTS;
				/* Two stores to one slot keep their order; the first is there by now. */
				!slot_pending[at];
				slot_value[at] = pushed;
				slot_push[at] = head_issued;
				slot_pending[at] = true
			}
			atomic {
				head_issued = (head_issued + 1) % WRAP;
				pushed++
			}
		fi
	od;
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
