# memory of a control group in which the kernel kills for want of memory is left in peace, and moved again afterwards
# SPDX-License-Identifier: GPL-2.0-or-later
# machine: two-tier
# timeout: 300
# needs: hotset pghotd pghotctl
# shellcheck shell=dash

GROUP=/sys/fs/cgroup/lab-short

# One that takes memory until it is killed.
overuse()
{
	sh -c "echo 1000 > /proc/self/oom_score_adj; echo 0 > $GROUP/cgroup.procs; exec tail /dev/zero" > /dev/null 2>&1
	[ "$(status_get 'pressure.0.cgroup')" = /lab-short ]
}

promoted_more()
{
	[ "$(status_get promoted_bytes)" -gt "$held_bytes" ]
}

held()
{
	[ "$(status_get state)" = degraded ]
}

echo 0 > "$NUMAB"
echo 0 > /sys/kernel/mm/numa/demotion_enabled
# So slowly that much is left to be promoted.
promote_conf 'guard = { resume_after_sec = 40; };' 'promote = { rate_mib_per_sec = 1; };'
fast_scan
start_hotset --total-mib 96 --hot-mib 64 --fill-node 1 --thp never
mkdir -p "$GROUP"
echo -1000 > "/proc/$HOTSET_PID/oom_score_adj"
echo "$HOTSET_PID" > "$GROUP/cgroup.procs"
# What it has already stays charged to where it was: this is what others in the group may take.
echo 16M > "$GROUP/memory.max"
start_pghotd || finish

held_bytes=0
wait_for 60 promoted_more || give_up "something is promoted" "$(status_get limiting)"
check "nobody is left in peace at first" "$(status_get state)" = promoting
# The group is watched once something of it was moved: a kill before that isn't seen.
if wait_for 60 overuse; then
	ok "the guard holds"
else
	give_up "the guard holds" "oom_kill: $(tr '\n' ' ' < "$GROUP/memory.events")"
fi
wait_for 10 held || true
pghotctl status > "$OUT/status.txt"
check "status says so" "$(status_get state)" = degraded
check "with the group" -n "$(grep '^In peace.*/lab-short' "$OUT/status.txt")"
check "it counts" $(($(status_get counters.guard_oom) + $(status_get counters.guard_pressure))) -ge 1
# What was on its way then is through.
sleep 1
held_bytes=$(status_get promoted_bytes)
sleep 5
promoted=$(status_get promoted_bytes)
if [ "$(json_get "$OUT/status.json" pressure.0.left_ns)" -gt 0 ]; then
	check "none of it is promoted" "$promoted" -eq "$held_bytes"
else
	not_ok "none of it is promoted" "the guard let go before that could be seen"
fi
check "for that reason" "$(status_get left_alone.pressure)" -gt 0
if wait_for 120 promoted_more; then
	ok "and then it goes on"
else
	not_ok "and then it goes on" "$(status_get limiting); $(status_get 'pressure.0.cause')"
fi
stop_pghotd
check "it ends with status 0" "$PGHOTD_STATUS" -eq 0
check "the log has both" "$(grep -c 'control group /lab-short' "$OUT/pghotd.log")" -ge 2
stop_hotset
rmdir "$GROUP"
