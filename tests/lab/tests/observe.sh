# mode observe moves nothing and tells what it would have moved
# SPDX-License-Identifier: GPL-2.0-or-later
# machine: two-tier
# timeout: 90
# needs: hotset pghotd pghotctl
# shellcheck shell=dash

echo 0 > "$NUMAB"
write_conf 'mode = "observe";' 'sources = [ "hint_faults" ];' \
	'hint_faults = { manage_sysctls = true; };'
fast_scan
start_hotset --total-mib 128 --hot-mib 32 --fill-node 1 --thp never
sleep 1
start_pghotd || finish

would_promote()
{
	would=$(status_get counters.would_promote_pages)
	[ "${would:-0}" -gt 0 ]
}

if wait_for 20 would_promote; then
	ok "status counts what would be promoted"
else
	not_ok "status counts what would be promoted" "would_promote_pages is '$would' after 20 s"
fi
sleep 5
place
check "no page moved" "$HOT_NEAR/$COLD_NEAR" = "0/0"
check "promoted_pages is 0" "$(status_get promoted_pages)" = 0
check "status exits with 1" "$STATUS_EXIT" -eq 1
would=$(status_get counters.would_promote_pages)
check "it would promote at least 95 % of the hot pages" "$would" -ge $((HOT_TOTAL * 95 / 100))
check "and at most 5 % of the cold ones" "$would" -le $((HOT_TOTAL + COLD_TOTAL * 5 / 100))
note "would_promote_pages: $would"
stop_pghotd
check "it ends with status 0" "$PGHOTD_STATUS" -eq 0
check "the settings are as found" "$(cat "$NUMAB")" = 0
stop_hotset
