# SPDX-License-Identifier: GPL-2.0-or-later
# Two readers on one CPU, their speeds compared by turns; read by guest/ibs.sh and guest/ibs_promote.sh.
# shellcheck shell=dash
# IBS_DEBUG and what begins with ibs_ come from lib.sh.
# shellcheck disable=SC2154
#
# A speed is reads of an unmodified program for each microsecond of CPU time that its reading thread had. Both readers
# share CPU 0 of the guest, every few milliseconds the other one runs. So whatever else the host does slows down both
# alike, and the ratio of their speeds over the same second stays. What is judged is the median of many such seconds:
# one in which the host took the CPU away for long tells little.

SPEED_LINES=0

# start_reader NAME NODE HOTSET-ARGUMENTS...: returns when its memory is filled; then it waits, so that the next one
# fills as fast. Its pid is in READER_NAME.
start_reader()
{
	reader_name=$1 reader_node=$2
	shift 2
	rm -f "/tmp/reader-$reader_name.txt"
	# reports by itself would cost time: they ask for the place of each page
	taskset -c 0 hotset --report "/tmp/reader-$reader_name.txt" --report-ms 16000000 --fill-node "$reader_node" "$@" \
		> "$OUT/reader-$reader_name.txt" 2>&1 &
	eval "READER_$reader_name=$!"
	wait_for 90 test -s "/tmp/reader-$reader_name.txt" ||
		give_up "the reader $reader_name starts" "$(tail -n 1 "$OUT/reader-$reader_name.txt")"
	pause_reader "$reader_name"
}

reader_pid()
{
	eval "echo \$READER_$1"
}

pause_reader()
{
	kill -STOP "$(reader_pid "$1")"
}

run_reader()
{
	kill -CONT "$(reader_pid "$1")"
}

# speeds_are_new A B: both have answered since; then SPEEDS is "busy gap_sum gaps reads_a us_a reads_b us_b". busy is
# what the emulator worked for the readers' CPU, in which no other work of the host counts, gap_sum what it took from one
# miss to the next, so many times. One process for all of it, since each takes the emulated machine's time.
speeds_are_new()
{
	SPEEDS=$(awk -v want="$((SPEED_LINES + 2))" '
		{ for (i = 1; i <= NF; i++) { split($i, word, "="); value[word[1]] = word[2] } }
		FILENAME ~ /stats$/ { if (value["cpu"] == 0) cpu = value["busy_kcycles"] " " value["gap_kcycles"] " " value["gaps"]; next }
		/^speed/ { lines++; last[FILENAME] = value["accesses"] " " value["cpu_us"] }
		END { if (lines >= want) print cpu, last[ARGV[2]], last[ARGV[3]] }' \
		"$IBS_DEBUG/stats" "/tmp/reader-$1.txt" "/tmp/reader-$2.txt")
	[ -n "$SPEEDS" ]
}

# speed_now A B: into SPEEDS. Always the same two of a test, each is asked as often as the other.
speed_now()
{
	kill -USR2 "$(reader_pid "$1")" "$(reader_pid "$2")"
	usleep 20000
	wait_for 20 speeds_are_new "$1" "$2" || give_up "the readers answer" "no report"
	SPEED_LINES=$((SPEED_LINES + 2))
}

# turn KIND A B: one second of both readers, a line "KIND reads_a us_a reads_b us_b busy gap" in turns.txt.
turn()
{
	speed_now "$2" "$3"
	turn_begin=$SPEEDS
	sleep 1
	speed_now "$2" "$3"
	echo "$1 $turn_begin $SPEEDS" |
		awk '{ gaps = $11 - $4; print $1, $12 - $5, $13 - $6, $14 - $7, $15 - $8, $9 - $2, gaps ? ($10 - $3) * 1000 / gaps : 0 }' >> "$OUT/turns.txt"
}

# turns KIND NUMBER A B
turns()
{
	turns_left=$2
	while [ "$turns_left" -gt 0 ]; do
		turn "$1" "$3" "$4"
		turns_left=$((turns_left - 1))
	done
}

# ratios KIND WHICH: a's speed to b's in each turn of that kind (WHICH is a), or b's to a's (b), in hundredths, sorted.
ratios()
{
	awk -v kind="$1" -v which="$2" '$1 == kind && $2 && $4 && $3 && $5 {
		a = $2 / $3; b = $4 / $5; printf "%.0f\n", (which == "a" ? a / b : b / a) * 100 }' "$OUT/turns.txt" | sort -n
}

# middle: the median of the lines, 0 when there are none.
middle()
{
	awk '{ v[NR] = $1 } END { print NR ? v[int((NR + 1) / 2)] : 0 }'
}

# spread: the least and the greatest of sorted lines.
spread()
{
	awk 'NR == 1 { least = $1 } END { printf "%d to %d", least, $1 }'
}
