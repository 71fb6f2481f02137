# SIGTERM while pages move: gone within two seconds, and nothing moves after it
# SPDX-License-Identifier: GPL-2.0-or-later
# machine: two-tier
# timeout: 200
# needs: hotset pghotd pghotctl
# shellcheck shell=dash

echo 0 > "$NUMAB"
promote_conf 'promote = { rate_mib_per_sec = 1; };'
fast_scan
start_hotset --total-mib 128 --hot-mib 32 --fill-node 1 --thp never
start_pghotd || finish
wait_for 60 hot_near_at_least 10 || not_ok "it promotes" "$HOT_NEAR pages in a minute"
stop_pghotd
check "it is gone within 2 s" "$STOP_MS" -le 2000
check "it ends with status 0" "$PGHOTD_STATUS" -eq 0
# Pages that the kernel was about to look at when pghotd took its settings back are its own to move.
by_kernel=$(vmstat numa_pages_migrated)
place
check "it was in the middle" "$HOT_NEAR" -lt "$HOT_TOTAL"
before=$((HOT_NEAR + COLD_NEAR))
sleep 2
place
check "nothing moves after it" $((HOT_NEAR + COLD_NEAR)) -le $((before + $(vmstat numa_pages_migrated) - by_kernel))
check "the settings are as found" "$(cat "$NUMAB")" = 0
note "gone after $STOP_MS ms"
stop_hotset
