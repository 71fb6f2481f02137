# two nodes in one tier: the line to put into the configuration is printed, and works
# SPDX-License-Identifier: GPL-2.0-or-later
# machine: no-hmat
# timeout: 200
# needs: pghotd pghotctl
# shellcheck shell=dash

line='tiers = ( "0", "1" );'
promote_conf
check "the kernel sees one tier" \
	"$(cat /sys/devices/virtual/memory_tiering/memory_tier*/nodelist)" = "0-1"
start_pghotd || finish
wait_for 30 grep -qF "$line" "$OUT/pghotd.log"
check "the log has the line to paste" -n "$(grep -F "$line" "$OUT/pghotd.log")"
stop_pghotd
check "it ends with status 0" "$PGHOTD_STATUS" -eq 0

promote_conf "$line"
: > "$OUT/pghotd.log"
start_pghotd || finish
sleep 2
check "with that line it asks no more" -z "$(grep -F "$line" "$OUT/pghotd.log")"
check "and no longer waits for a slow tier" -z "$(grep -i 'no slow tier' "$OUT/pghotd.log")"
stop_pghotd
check "it ends with status 0 again" "$PGHOTD_STATUS" -eq 0
