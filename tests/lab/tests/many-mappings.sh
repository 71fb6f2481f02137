# a process with tens of thousands of mappings is looked at and its pages come near; its own mmap() takes no longer in the median
# SPDX-License-Identifier: GPL-2.0-or-later
# machine: counted
# timeout: 700
# needs: pghotd pghotctl trouble
# shellcheck shell=dash

# To look at 60,000, for 0.3 s on a real machine, takes half a minute here. A long check boots with this word.
mappings=20000
grep -qw lab.long /proc/cmdline && mappings=60000

# rules MODE: of the control group with the process.
rules()
{
	promote_conf "manage = { rules = ( { match = \"cgroup:/lab-maps\"; mode = \"$1\"; } ); };"
}

# report: a line of what it has measured since the last one.
report()
{
	lines=$(wc -l < /tmp/maps.txt)
	kill -USR1 "$MAPS_PID"
	wait_for 10 more_lines || give_up "the program reports" "nothing within 10 s"
}

# take NAME: that line, into p50 and p99.
take()
{
	report
	measured=$(tail -n 1 /tmp/maps.txt)
	note "$1: $measured"
	p50=$(ibs_value "$measured" p50_ns)
	p99=$(ibs_value "$measured" p99_ns)
}

more_lines()
{
	[ "$(wc -l < /tmp/maps.txt)" -gt "$lines" ]
}

# has COUNTER, for wait_for: most of the 4096 hot pages are in it.
has()
{
	has_now=$(status_get "counters.$1")
	[ "${has_now:-0}" -ge 3500 ]
}

echo 0 > "$NUMAB"
# Two CPUs would take turns of some ms, and who waits for the other's lock waits for its turn.
echo 0 > /sys/devices/system/cpu/cpu1/online
fast_scan
mkdir -p /sys/fs/cgroup/lab-maps
rm -f /tmp/maps.txt
(
	echo 0 > /sys/fs/cgroup/lab-maps/cgroup.procs
	exec trouble maps $mappings
) > /tmp/maps.txt 2> "$OUT/maps.err" &
MAPS_PID=$!
wait_for 60 test -s /tmp/maps.txt || give_up "the program starts" "$(tail -n 1 "$OUT/maps.err")"
check "it has that many mappings" "$(wc -l < "/proc/$MAPS_PID/maps")" -ge $mappings
rules off
start_pghotd || finish
report
sleep 15
take "left alone by a rule"
off50=$p50 off99=$p99
check "nothing of it moved" "$(status_get promoted_pages)" -lt 3500
rules observe
kill -HUP "$PGHOTD_PID"
report
# Nothing would move before its mappings are known.
if wait_for 240 has would_promote_pages; then
	ok "its mappings are known"
else
	not_ok "its mappings are known" "would_promote_pages $has_now"
fi
take "looked at"
check "the median is at most a fifth more" $((p50 * 100)) -le $((off50 * 120))
# The tail is longer for as long as that lasts, at most a hundredth of the time: mmap() waits for the mappings that are
# being read just then.
note "p99 $((off99 / 1000)) us before, $((p99 / 1000)) us while it is looked at"
rules promote
kill -HUP "$PGHOTD_PID"
if wait_for 240 has promoted_pages; then
	ok "its hot pages come near"
else
	not_ok "its hot pages come near" "promoted_pages $has_now"
fi
take "looked at again, and moved"
cp /tmp/maps.txt "$OUT/maps.txt"
stop_pghotd
check "it ends with status 0" "$PGHOTD_STATUS" -eq 0
kill -TERM "$MAPS_PID"
wait "$MAPS_PID"
rmdir /sys/fs/cgroup/lab-maps
echo 1 > /sys/devices/system/cpu/cpu1/online
