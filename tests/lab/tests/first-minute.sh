# the first minute on a tiered machine: changes nothing, moves nothing, says what it found and what to do
# SPDX-License-Identifier: GPL-2.0-or-later
# machine: two-tier
# timeout: 400
# needs: hotset pghotd pghotctl
# shellcheck shell=dash

minute()
{
	timeout 200 pghotd --first-minute --for "$1" > "$OUT/minute-$2.txt" 2>&1
	STATUS=$?
}

says()
{
	check "$3" -n "$(grep -E "$2" "$OUT/minute-$1.txt")"
}

pghotd --has-tiers > "$OUT/has-tiers.txt" 2>&1
check "the machine is known to be tiered" $? -eq 0

# As the kernel is set up by default: no source can run, and nothing is switched on for it.
echo 0 > "$NUMAB"
echo 65536 > "$RATE"
minute 3 off
check "it ends with status 0 where no source can run" "$STATUS" -eq 0
# Longer where it is slow to come to its end.
says off 'observed this machine for ([3-9]|[1-9][0-9]+) s' "it observed as long as told"
says off 'sysctl -w kernel.numa_balancing=2' "it says which setting the source needs"
check "it has not changed it" "$(cat "$NUMAB") $(cat "$RATE")" = "0 65536"

# An administrator has set what hint faults need.
echo 0 > "$RATE"
echo 2 > "$NUMAB"
fast_scan
start_hotset --total-mib 128 --hot-mib 32 --fill-node 1 --thp never
minute 15 on
# On a slow host the kernel hasn't come by all hot pages by then.
grep -qE 'would be promoted: (3[0-9]|2[89])\.[0-9] MiB' "$OUT/minute-on.txt" || minute 90 on
check "it ends with status 0" "$STATUS" -eq 0
check "the settings are untouched" "$(cat "$NUMAB") $(cat "$RATE")" = "2 0"
check "there is no socket and nothing to restore" ! -e /run/pghotd/bus -a ! -e /run/pghotd/saved
place
check "no page moved" "$HOT_NEAR/$COLD_NEAR" = "0/0"
says on 'fast, node 0:' "the fast tier is shown"
says on 'slow, node 1:' "the slow tier is shown"
says on 'would be promoted: (3[0-9]|2[89])\.[0-9] MiB' "it says how much of the slow tier is hot"
says on 'hotset +pid [0-9]+ +(3[0-9]|2[89])\.[0-9] MiB' "and whose it is"
says on 'systemctl enable --now pghotd' "it says how to install"
says on 'pghotctl mode promote' "how to go live"
says on 'pghotctl mode observe' "and how to undo it"
stop_hotset
