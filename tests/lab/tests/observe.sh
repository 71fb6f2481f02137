# mode observe moves nothing and tells what it would have moved
# SPDX-License-Identifier: GPL-2.0-or-later
# machine: two-tier
# timeout: 300
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
	[ "${would:-0}" -ge "$1" ]
}

last_place
if wait_for 90 would_promote $((HOT_TOTAL * 95 / 100)); then
	ok "it would promote at least 95 % of the hot pages"
else
	not_ok "it would promote at least 95 % of the hot pages" "would_promote_pages is '$would'"
fi
# So long that the kernel comes by the cold pages too.
sleep 5
place
check "no page moved" "$HOT_NEAR/$COLD_NEAR" = "0/0"
check "promoted_pages is 0" "$(status_get promoted_pages)" = 0
check "status exits with 1" "$STATUS_EXIT" -eq 1
would=$(status_get counters.would_promote_pages)
check "and at most 5 % of the cold ones" "$would" -le $((HOT_TOTAL + COLD_TOTAL * 5 / 100))
note "would_promote_pages: $would"
stop_pghotd
check "it ends with status 0" "$PGHOTD_STATUS" -eq 0
check "the settings are as found" "$(cat "$NUMAB")" = 0
stop_hotset
