# SPDX-License-Identifier: GPL-2.0-or-later
# A control group that isn't well, and whose memory is therefore left where it is: each reason has its test, and each of
# them reads this file.
# shellcheck shell=dash disable=SC2034

GROUP=/sys/fs/cgroup/lab-$TEST
# More of ten seconds than tasks ever wait for memory: for tests of another reason.
NO_PRESSURE=100

# start_in_group PERCENT IN ARGUMENTS...: hotset in $GROUP, and the daemon, which has moved some of it. With IN=charged
# the group's limits hold for all memory of hotset; else it is charged to where hotset started, and the limits are for
# others in the group.
start_in_group()
{
	percent=$1
	charged=$2
	shift 2
	echo 0 > "$NUMAB"
	echo 0 > /sys/kernel/mm/numa/demotion_enabled
	# So slowly that much is left to be promoted.
	promote_conf "guard = { resume_after_sec = 30; pressure_percent = $percent.0; };" \
		'promote = { rate_mib_per_sec = 1; };'
	fast_scan
	mkdir -p "$GROUP"
	[ "$charged" != charged ] || echo $$ > "$GROUP/cgroup.procs"
	start_hotset --fill-node 1 --thp never "$@"
	echo -1000 > "/proc/$HOTSET_PID/oom_score_adj"
	echo "$HOTSET_PID" > "$GROUP/cgroup.procs"
	echo $$ > /sys/fs/cgroup/test/cgroup.procs
	start_pghotd || finish
	held_bytes=0
	# The group is watched once something of it was moved: what was before that isn't seen.
	wait_for 60 promoted_more || give_up "something is promoted" "$(status_get limiting)"
	check "nobody is left in peace at first" "$(status_get state)" = promoting
}

promoted_more()
{
	[ "$(status_get promoted_bytes)" -gt "$held_bytes" ]
}

# in_peace CAUSE, for wait_for: the group is, for that reason.
in_peace()
{
	status_answers && [ "$(json_get "$OUT/status.json" pressure.0.cgroup)" = "/lab-$TEST" ] &&
		[ "$(json_get "$OUT/status.json" pressure.0.cause)" = "$1" ]
}

# in_peace_soon CAUSE: within three looks of the guard, for what is itself called by wait_for.
in_peace_soon()
{
	soon_end=$(($(now_ms) + 6000))
	until in_peace "$1"; do
		[ "$(now_ms)" -lt "$soon_end" ] || return 1
		usleep 100000
	done
}

nobody_in_peace()
{
	status_answers && ! json_get "$OUT/status.json" pressure.0.cgroup > /dev/null
}

degraded()
{
	[ "$(status_get state)" = degraded ]
}

# For wait_for: what was on its way is through, a second adds nothing.
came_to_rest()
{
	before_bytes=$(status_get promoted_bytes)
	sleep 1
	held_bytes=$(status_get promoted_bytes)
	[ -n "$held_bytes" ] && [ "$held_bytes" = "$before_bytes" ]
}

# check_peace CAUSE COUNTER: what it looks like while the guard holds.
check_peace()
{
	wait_for 30 degraded || true
	pghotctl status > "$OUT/status.txt"
	check "status says so" "$(status_get state)" = degraded
	check "with group and reason" -n "$(grep "^In peace.*/lab-$TEST: $1" "$OUT/status.txt")"
	check "it counts" "$(status_get "counters.$2")" -ge 1
	wait_for 10 came_to_rest
	sleep 5
	promoted=$(status_get promoted_bytes)
	if [ "$(json_get "$OUT/status.json" pressure.0.left_ns)" -gt 0 ]; then
		check "none of it is promoted" "$promoted" -eq "$held_bytes"
	else
		not_ok "none of it is promoted" "the guard let go before that could be seen"
	fi
	check "for that reason" "$(status_get left_alone.pressure)" -gt 0
}

# check_resumed: when the group is well.
check_resumed()
{
	if wait_for 120 promoted_more; then
		ok "and then it goes on"
	else
		not_ok "and then it goes on" "$(status_get limiting); $(status_get 'pressure.0.cause')"
	fi
}

end_peace()
{
	stop_pghotd
	check "it ends with status 0" "$PGHOTD_STATUS" -eq 0
	check "the log has both" "$(grep -c "control group /lab-$TEST" "$OUT/pghotd.log")" -ge 2
}
