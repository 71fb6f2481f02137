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

speed_lines()
{
	grep -c '^speed' "/tmp/reader-$1.txt"
}

newer_speed()
{
	[ "$(speed_lines "$1")" -gt "$2" ]
}

# speed_now NAME...: "reads cpu_us" of each one after the other into SPEEDS.
speed_now()
{
	SPEEDS='' speed_counts=''
	for speed_name in "$@"; do
		speed_counts="$speed_counts $(speed_lines "$speed_name")"
		kill -USR2 "$(reader_pid "$speed_name")"
	done
	for speed_name in "$@"; do
		speed_count=${speed_counts# }
		speed_count=${speed_count%% *}
		speed_counts=${speed_counts# "$speed_count"}
		wait_for 20 newer_speed "$speed_name" "$speed_count" || give_up "the reader $speed_name answers" "no report"
	done
	for speed_name in "$@"; do
		speed_line=$(grep '^speed' "/tmp/reader-$speed_name.txt" | tail -n 1)
		SPEEDS="$SPEEDS $(ibs_value "$speed_line" accesses) $(ibs_value "$speed_line" cpu_us)"
	done
}

# busy: what the emulator worked for the readers' CPU, in which no other work of the host counts.
busy()
{
	ibs_value "$(grep '^cpu=0 ' "$IBS_DEBUG/stats")" busy_kcycles
}

# turn KIND A B: one second of both readers, a line "KIND reads_a us_a reads_b us_b busy" in turns.txt.
turn()
{
	speed_now "$2" "$3"
	turn_begin="$(busy)$SPEEDS"
	sleep 1
	speed_now "$2" "$3"
	echo "$1 $turn_begin $(busy)$SPEEDS" |
		awk '{ print $1, $8 - $3, $9 - $4, $10 - $5, $11 - $6, $7 - $2 }' >> "$OUT/turns.txt"
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
		a = $2 / $3; b = $4 / $5; printf "%d\n", (which == "a" ? a / b : b / a) * 100 }' "$OUT/turns.txt" | sort -n
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
