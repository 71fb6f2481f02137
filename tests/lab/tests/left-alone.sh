# what is left alone by default stays where it is and is counted; what may move does, and costs what it is
# SPDX-License-Identifier: GPL-2.0-or-later
# machine: two-tier
# timeout: 400
# needs: hotset pghotd pghotctl
# shellcheck shell=dash disable=SC1091,SC2154

. /lab/kinds.sh

echo 0 > "$NUMAB"
echo 0 > /sys/kernel/mm/numa/demotion_enabled
echo 0 > /proc/sys/vm/compaction_proactiveness
mkdir -p /dev/vfio /sys/fs/cgroup/lab-off /sys/fs/cgroup/lab-mems
: > /dev/vfio/1
echo 1 > /sys/fs/cgroup/lab-mems/cpuset.mems
promote_conf 'manage = { rules = ( { match = "cgroup:/lab-off/**"; mode = "off"; } ); };'
fast_scan
size='--total-mib 8 --hot-mib 4 --thp never'
# shellcheck disable=SC2086
{
	start_kind plain '' $size
	start_kind locked '' $size --memory locked
	start_kind device '' $size --hold /dev/vfio/1
	start_kind off lab-off $size
	start_kind mems lab-mems $size
}
start_kind thp '' --total-mib 16 --hot-mib 8 --thp always
migrated=$(vmstat pgmigrate_success)
begin=$(now_ms)
start_pghotd || finish

check_near plain 60
check_near thp 60
check_left locked 2000000 30
check_left device 2000000 30
check_left rule 2000000 30
refused()
{
	[ "$(status_get counters.move_cpuset)" -gt 0 ]
}
if wait_for 30 refused; then
	ok "mems: its cpuset closes the near node to it"
else
	not_ok "mems: its cpuset closes the near node to it" "move_cpuset is $(status_get counters.move_cpuset)"
fi
settle
sleep 2
for kind in locked device off mems; do
	check_far $kind
done
# One call, of at most 512 pages, in ten seconds.
tries=$((($(now_ms) - begin) / 10000 + 2))
check "a process that rests costs few calls" "$(status_get counters.move_cpuset)" -le $((tries * 512))
charged_are_moved()
{
	near=$(near_pages plain thp)
	promoted=$(status_get promoted_pages)
	moved=$(($(vmstat pgmigrate_success) - migrated))
	# Other programs have a few pages on the far node too.
	[ "$promoted" -ge "$near" ] && [ "$promoted" -le "$moved" ] && [ "$promoted" -le $((near + 64)) ]
}
# Pages may come near between the looks.
if wait_for 30 charged_are_moved; then
	ok "bytes charged are bytes moved, and no more"
else
	not_ok "bytes charged are bytes moved, and no more" "see the figures"
fi
note "promoted_pages $promoted, near $near, pgmigrate_success $moved"
check "promoted_bytes says the same" "$(json_get "$OUT/status.json" promoted_bytes)" -eq $((promoted * 4096))
cp "$OUT/status.json" "$OUT/status-moved.json"
note "huge pages of thp: $(grep AnonHugePages "/proc/$PID_thp/smaps_rollup")"
huge=0
for i in 0 1 2 3 4 5 6 7; do
	if [ "$(json_get "$OUT/status-moved.json" moves.$i.huge) $(json_get "$OUT/status-moved.json" moves.$i.result)" = "true ok" ]; then
		huge=$(json_get "$OUT/status-moved.json" moves.$i.pages)
	fi
done
check "huge pages are counted as such, by base pages" "$huge" -ge 1946 -a $((huge % 512)) -eq 0
pghotctl status > "$OUT/status.txt"
check "status says it in words" -n "$(grep 'Left alone' "$OUT/status.txt")"
stop_pghotd
check "it ends with status 0" "$PGHOTD_STATUS" -eq 0
stop_kinds
rmdir /sys/fs/cgroup/lab-off /sys/fs/cgroup/lab-mems
