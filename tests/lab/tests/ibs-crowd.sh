# 500 clients of the control socket, of which some behave badly, cost no sample, while they come as fast as they can
# SPDX-License-Identifier: GPL-2.0-or-later
# machine: two-tier
# timeout: 300
# ibs: ibs_op,ops_per_miss=40
# needs: hotset pghotd pghotctl crowd
# shellcheck shell=dash disable=SC1091,SC2154

. /lab/ibs_options.sh

# A long check boots with this word.
seconds=5
grep -qw lab.long /proc/cmdline && seconds=60

# counts: "TOTAL LOST DROPPED KIB": samples decoded, lost by the kernel, dropped by pghotd for want of room; its memory.
counts()
{
	wait_for 60 status_answers || give_up "status answers" "$(tail -n 1 "$OUT/status.err")"
	awk -v kib="$(awk '/^VmRSS:/ { print $2 }' "/proc/$PGHOTD_PID/status")" '
		{ gsub(/[",:]/, "") }
		$1 == "total" { total = $2 } $1 == "lost" { lost = $2 } $1 ~ /^dropped_/ { dropped += $2 }
		END { print total + 0, lost + 0, dropped + 0, kib }' "$OUT/status.json"
}

# per_mille BEFORE AFTER: "SAMPLES PER-MILLE" of what came in between, PER-MILLE of it lost or dropped.
per_mille()
{
	echo "$1 $2" | awk '{ all = $5 - $1 + $6 - $2; gone = $6 - $2 + $7 - $3; printf "%d %.2f\n", all, all ? gone / all * 1000 : 0 }'
}

echo 0 > "$NUMAB"
ibs_load || give_up "the module loads" "$(dmesg | tail -n 1)"
write_conf 'mode = "observe";' 'sources = [ "ibs" ];' 'ibs = { period = 5008; };'
start_reader far 1 --total-mib 48 --hot-mib 24 --thp never
run_reader far
start_pghotd || finish
sleep 2
begin=$(counts)
sleep $seconds
alone=$(counts)
taskset -c 1 crowd /run/pghotd/bus 500 $seconds ask ask ask ask ask ask ask ask leave cut large slow silent > "$OUT/crowd.txt" 2>&1
check "the crowd was there" $? -eq 0
crowded=$(counts)
# shellcheck disable=SC2046 # words
set -- $(per_mille "$begin" "$alone") $(per_mille "$alone" "$crowded")
note "alone $1 samples, $2 per mille gone; in the crowd $3, $4 per mille; it has $(echo "$crowded" | cut -d ' ' -f 4) KiB, before $(echo "$alone" | cut -d ' ' -f 4)"
while read -r line; do note "$line"; done < "$OUT/crowd.txt"
check "samples came all the time" "$3" -gt 200
check "no more of them are lost or dropped than without" "$(echo "$2 $4" | awk '{ print $2 <= $1 + 1 }')" -eq 1
check "its memory is bounded" $(($(echo "$crowded" | cut -d ' ' -f 4) - $(echo "$alone" | cut -d ' ' -f 4))) -le 65536
# How many of them were answered says how fast the emulator is. Who comes afterwards is, which counts has seen.
kill -TERM "$(reader_pid far)"
stop_pghotd
check "it ends with status 0" "$PGHOTD_STATUS" -eq 0
