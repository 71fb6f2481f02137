# as a user beside a helper, at perf_event_paranoid 3: the whole job is done, and who takes it over gets no more
# SPDX-License-Identifier: GPL-2.0-or-later
# machine: two-tier
# timeout: 500
# needs: hotset outsider pghotd pghotctl
# shellcheck shell=dash

paranoid=/proc/sys/kernel/perf_event_paranoid
paranoid_was=$(cat $paranoid)
online=/sys/devices/system/cpu/cpu1/online
echo 0 > "$NUMAB"
echo 4321 > "$RATE"
echo 3 > $paranoid
# As systemd-sysusers would.
grep -q '^pghotd:' /etc/passwd || echo 'pghotd:x:990:990::/:/bin/false' >> /etc/passwd
grep -q '^pghotd:' /etc/group || echo 'pghotd:x:990:' >> /etc/group

# Of the main process: NAME of /proc/PID/status.
main_has()
{
	sed -n "s/^$1:[[:space:]]*//p" "/proc/$PGHOTD_PID/status"
}

# The process of that name.
pid_of()
{
	grep -lx "$1" /proc/[0-9]*/comm 2>/dev/null | cut -d / -f 3
}

another_helper()
{
	helper_now=$(pid_of pghotd-helper)
	[ -n "$helper_now" ] && [ "$helper_now" != "$helper_then" ]
}

cpus()
{
	status_answers
	grep -o '"cpus": *[0-9]*' "$OUT/status.json" | tr -cd '0-9\n' | sort -n | tail -n 1
}

both_cpus()
{
	[ "$(cpus)" -eq 2 ]
}

settings_are()
{
	[ "$(cat "$NUMAB") $(cat "$RATE")" = "$1" ]
}

told_lost()
{
	status_answers
	[ "$STATUS_EXIT" -eq 2 ] && grep -q 'helper process' "$OUT/status.json"
}

# Samples that were read come on.
more_samples()
{
	samples_now=$(status_get counters.total)
	[ "${samples_now:-0}" -gt "$samples_then" ]
}

promote_conf
fast_scan
start_hotset --total-mib 128 --hot-mib 32 --fill-node 1 --thp never --threads 2
start_pghotd --user pghotd || finish
check "it runs as that user" "$(main_has Uid | tr '\t' ' ')" = "990 990 990 990"
# CAP_IPC_LOCK, CAP_SYS_PTRACE, CAP_SYS_NICE
check "with three capabilities" "$(main_has CapEff)" = 0000000000884000
wait_for 30 settings_are "2 0"
check "the settings are set" "$(cat "$NUMAB") $(cat "$RATE")" = "2 0"
check "what to put back is root's alone" "$(stat -c '%u %a' /run/pghotd-helper/saved)" = "0 600"
if wait_for 120 hot_near_at_least 95; then
	ok "the hot pages of another user come near"
else
	not_ok "the hot pages of another user come near" "$HOT_NEAR of $HOT_TOTAL"
fi
place
check "at most 5 % of the cold pages are near" $((COLD_NEAR * 100)) -le $((COLD_TOTAL * 5))
echo 0 > $online
echo 1 > $online
if wait_for 60 both_cpus; then
	ok "a CPU that came back is sampled"
else
	not_ok "a CPU that came back is sampled" "$(cpus) of 2 are"
fi

timeout 200 outsider "$PGHOTD_PID" > "$OUT/outsider.txt" 2>&1
check "the attempts were made" $? -eq 0
check "of all that was tried only its own event was had" "$(grep -v ^refused "$OUT/outsider.txt")" = "had an event of pghotd"
check "each of the nineteen others was refused" "$(grep -c ^refused "$OUT/outsider.txt")" -eq 19
logged_refusals()
{
	[ "$(grep -c 'is refused: it isn.t on the list' "$OUT/pghotd.log")" -ge 9 ]
}
wait_for 30 logged_refusals
check "the log says so" "$(grep -c 'is refused: it isn.t on the list' "$OUT/pghotd.log")" -ge 9
check "the settings are still as they were set" "$(cat "$NUMAB") $(cat "$RATE")" = "2 0"

helper_then=$(pid_of pghotd-helper)
kill -KILL "$helper_then"
if wait_for 60 another_helper; then
	ok "a helper that is killed is started again"
else
	not_ok "a helper that is killed is started again" "was $helper_then, is ${helper_now:-none}"
fi
echo 0 > $online
echo 1 > $online
if wait_for 60 both_cpus; then
	ok "and opens events for a CPU that came back"
else
	not_ok "and opens events for a CPU that came back" "$(cpus) of 2 are"
fi
kill -KILL "$(pid_of pghotd-keeper)"
kill -KILL "$(pid_of pghotd-helper)"
if wait_for 60 told_lost; then
	ok "status says that the helper is gone"
else
	not_ok "status says that the helper is gone" "it exits with $STATUS_EXIT"
fi
samples_then=$(status_get counters.total)
if wait_for 60 more_samples; then
	ok "the events that are open go on"
else
	not_ok "the events that are open go on" "still $samples_then samples"
fi
stop_pghotd
check "it ends with status 0" "$PGHOTD_STATUS" -eq 0
timeout 60 pghotd --restore > "$OUT/restore.txt" 2>&1
check "--restore puts back what a helper left" "$(cat "$NUMAB") $(cat "$RATE")" = "0 4321"

start_pghotd --user pghotd || finish
wait_for 30 settings_are "2 0"
check "a new one sets them again" "$(cat "$NUMAB") $(cat "$RATE")" = "2 0"
kill_pghotd
if wait_for 60 settings_are "0 4321"; then
	ok "after kill -9 the helper puts them back"
else
	not_ok "after kill -9 the helper puts them back" "$(cat "$NUMAB") $(cat "$RATE")"
fi
start_pghotd --user pghotd || finish
stop_pghotd
check "so does a clean stop" "$PGHOTD_STATUS $(cat "$NUMAB") $(cat "$RATE")" = "0 0 4321"
check "and nothing is left to restore" ! -e /run/pghotd-helper/saved
stop_hotset
echo "$paranoid_was" > $paranoid
