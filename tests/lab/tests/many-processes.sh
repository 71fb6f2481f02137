# thousands of processes: looking at all of them for a share of the fast tier costs little, and the job gets done
# SPDX-License-Identifier: GPL-2.0-or-later
# machine: two-tier
# timeout: 500
# needs: hotset pghotd pghotctl trouble
# shellcheck shell=dash disable=SC1091,SC2154

. /lab/kinds.sh

# Here a look at one takes a hundred times as long as on a real machine. A long check boots with this word.
many=300
grep -qw lab.long /proc/cmdline && many=1500
echo 4194304 > /proc/sys/kernel/pid_max

# look_ms: CPU time that the thread has used which looks at processes.
look_ms()
{
	cat "/proc/$PGHOTD_PID/task/"*/stat | awk '/\(pghot-look/ { sub(/.*\) /, ""); print ($12 + $13) * 10 }'
}

echo 0 > "$NUMAB"
promote_conf 'manage = { rules = ( { match = "cgroup:/**"; fast_max_percent = 90; } ); };'
fast_scan
trouble processes $many > "$OUT/processes.txt" 2>&1 &
crowd=$!
wait_for 90 test -s "$OUT/processes.txt"
check "$many processes are there" "$(cat "$OUT/processes.txt")" = "processes=$many"
start_pghotd || finish
start_kind plain '' --total-mib 32 --hot-mib 16 --thp never
# Its share is known only when each process was looked at.
check_near plain 300
status_answers
cp "$OUT/status.json" "$OUT/status-near.json"
begin=$(now_ms)
used=$(look_ms)
sleep 20
used=$(($(look_ms) - used))
took=$(($(now_ms) - begin))
note "$many processes: looking at them took $used ms of $took"
# It aims at a hundredth. Two CPUs in turns on one of the host make it two, and a round may begin in this time.
check "that is at most a twentieth of the time" $((used * 20)) -le "$took"
kill -TERM $crowd
wait $crowd
check "no line of an error" -z "$(grep -iE 'cannot|failed|error' "$OUT/pghotd.log")"
stop_pghotd
check "it ends with status 0" "$PGHOTD_STATUS" -eq 0
stop_kinds
