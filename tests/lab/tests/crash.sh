# kill -9 in the middle: a restart finishes the job, and the kernel's settings come back
# SPDX-License-Identifier: GPL-2.0-or-later
# machine: two-tier
# timeout: 400
# needs: hotset pghotd pghotctl
# shellcheck shell=dash

# Values that nobody else would set.
echo 0 > "$NUMAB"
echo 4321 > "$RATE"

settings()
{
	echo "$(cat "$NUMAB") $(cat "$RATE")"
}

in_mode_2()
{
	[ "$(cat "$NUMAB")" = 2 ]
}

# Slow enough that there is a middle.
promote_conf 'promote = { rate_mib_per_sec = 1; };'
fast_scan
start_hotset --total-mib 128 --hot-mib 32 --fill-node 1 --thp never
start_pghotd || finish
wait_for 60 hot_near_at_least 10 || not_ok "the first run promotes" "$HOT_NEAR pages in a minute"
kill_pghotd
place
check "it was killed in the middle" "$HOT_NEAR" -lt "$HOT_TOTAL"
promote_conf
start_pghotd || finish
if wait_for 90 hot_near_at_least 95; then
	ok "the second run finishes the job"
else
	not_ok "the second run finishes the job" "$HOT_NEAR of $HOT_TOTAL hot pages are near"
fi
place
check "at most 5 % of the cold pages are near" $((COLD_NEAR * 100)) -le $((COLD_TOTAL * 5))
stop_pghotd
check "a clean stop ends with status 0" "$PGHOTD_STATUS" -eq 0
check "after it the settings are as found" "$(settings)" = "0 4321"
stop_hotset

start_pghotd || finish
wait_for 30 in_mode_2 || not_ok "a new start sets mode 2" "the settings are $(settings)"
kill_pghotd
timeout 60 pghotd --restore > "$OUT/restore.txt" 2>&1
check "--restore ends with status 0" $? -eq 0
check "after kill -9 and --restore the settings are as found" "$(settings)" = "0 4321"
check "nothing is left to restore" ! -s /run/pghotd/saved

start_pghotd || finish
wait_for 30 in_mode_2 || not_ok "so does the next" "the settings are $(settings)"
kill_pghotd
echo 999 > "$RATE"
timeout 60 pghotd --restore > "$OUT/restore.txt" 2>&1
check "what someone else set in between is left" "$(settings)" = "0 999"

start_pghotd || finish
wait_for 30 in_mode_2 || not_ok "and the last" "the settings are $(settings)"
echo 1 > "$NUMAB"
stop_pghotd
check "the same for a clean stop" "$(settings)" = "1 999"
