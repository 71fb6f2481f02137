/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The marks of hotmap.h, by which a scan finds what became ready without a look at anything else: a bit for each chunk,
 * above it one for each section, above that one for each word of those. Two sections of one chunk and one page each, in
 * one word; a collector for each, whose word becomes ready, is taken, and becomes ready again; a scan for each, as the
 * migrators of two nodes or two parts of one; both scans clear the mark of the word of sections when it is empty (M3).
 *
 * Held: when all is quiet, what is ready has its three marks, so that the next scan finds it.
 *
 * All accesses to words and marks are seq_cst, of which the language makes one order that all agree on; so what is left
 * to be explored is which comes when. A mark that is set is only looked at (M1).
 *
 * Broken on purpose, each must be found:
 * broken: LOOK_EARLY the collector looks at a mark before its word is written, as with less than seq_cst it might
 * broken: TOP_DOWN the collector marks the section before the chunk
 * broken: CHUNK_LATE the scan clears the mark of the chunk after it has looked at the word
 * broken: SECTION_LATE the scan clears the mark of the section after it has looked at those of its chunks
 * broken: NO_SECOND_LOOK the mark of an empty word of sections is cleared without a look afterwards
 * broken: NO_LOOK that mark is cleared whatever sections have
 * broken: KEPT_UNMARKED the scan leaves a word ready and doesn't mark it again
 */
#define SECTIONS 2
#define TIMES    2 /* that a word becomes ready */
#define SCANS    2

bool ready[SECTIONS];
bool chunk[SECTIONS], section[SECTIONS], warm;
byte ended;

/* A look, and then, apart from it, a write if need be. */
inline look_and_mark(mark)
{
	if
	:: mark
	:: else -> mark = true
	fi
}

proctype collector(byte s)
{
	byte n;
	bool became;
#ifdef LOOK_EARLY
	bool seen;
#endif

	do
	:: n == TIMES -> break
	:: n < TIMES ->
#ifdef LOOK_EARLY
		seen = chunk[s];
#endif
		atomic { became = !ready[s]; ready[s] = true } /* W1 */
		if
		:: became ->
#ifdef LOOK_EARLY
			if
			:: seen
			:: else -> chunk[s] = true
			fi;
			look_and_mark(section[s]);
			look_and_mark(warm)
#else
#ifdef TOP_DOWN
			look_and_mark(warm);
			look_and_mark(section[s]);
			look_and_mark(chunk[s])
#else
			look_and_mark(chunk[s]); /* M1 */
			look_and_mark(section[s]);
			look_and_mark(warm)
#endif
#endif
		:: else /* who made it so marks it */
		fi;
		n++
	od;
	ended++
}

/* The word of a chunk: taken, or left as it is. */
inline visit(s, keep)
{
	if
	:: ready[s] ->
		if
		:: ready[s] = false
		:: keep = true
		fi
	:: else
	fi
}

inline visit_section(s, keep)
{
#ifndef SECTION_LATE
	section[s] = false; /* M2 */
#endif
	if
	:: chunk[s] ->
#ifdef CHUNK_LATE
		visit(s, keep);
		chunk[s] = false;
#else
		chunk[s] = false; /* M2 */
		visit(s, keep);
#endif
		if
#ifndef KEPT_UNMARKED
		:: keep -> chunk[s] = true; section[s] = true; warm = true
#endif
		:: else
		fi;
		keep = false
	:: else
	fi;
#ifdef SECTION_LATE
	section[s] = false;
#endif
	/* What came meanwhile. */
	if
	:: chunk[s] -> section[s] = true; warm = true
	:: else
	fi
}

proctype scan(byte s)
{
	byte n;
	bool keep;

	do
	:: n == SCANS -> break
	:: n < SCANS ->
		if
		:: warm ->
			if
			:: section[s] -> visit_section(s, keep)
			:: else
			fi;
			/* The two are bits of one word, and looked at together. */
			if
#ifndef NO_LOOK
			:: section[0] || section[1]
#endif
			:: else ->
				warm = false; /* M3 */
#if !defined(NO_SECOND_LOOK) && !defined(NO_LOOK)
				if
				:: section[0] || section[1] -> warm = true
				:: else
				fi
#endif
			fi
		:: else
		fi;
		n++
	od;
	ended++
}

init
{
	atomic {
		run collector(0);
		run collector(1);
		run scan(0);
		run scan(1)
	}
	ended == 4;
	/* All is quiet. */
	assert(!ready[0] || (chunk[0] && section[0] && warm));
	assert(!ready[1] || (chunk[1] && section[1] && warm))
}
