# without a slow tier it waits for one, and says so once
# SPDX-License-Identifier: GPL-2.0-or-later
# machine: one-node
# timeout: 200
# needs: pghotd pghotctl
# shellcheck shell=dash

says_slow_tier()
{
	grep -qi 'slow tier' "$OUT/pghotd.log"
}

promote_conf
found=$(cat "$NUMAB")
start_pghotd || finish
wait_for 60 says_slow_tier
sleep 5
check "it says once that it waits for a slow tier" \
	"$(grep -ci 'slow tier' "$OUT/pghotd.log")" -eq 1
check "it goes on running" -d "/proc/$PGHOTD_PID"
status_answers
check "status exits with 1" "$STATUS_EXIT" -eq 1
check "no setting was changed meanwhile" "$(cat "$NUMAB")" = "$found"
stop_pghotd
check "it ends with status 0" "$PGHOTD_STATUS" -eq 0
