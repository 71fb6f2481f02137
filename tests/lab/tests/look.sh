# what pghotctl shows of a program whose pages are hot: explain, heat, top, metrics and doctor agree with what is moved
# SPDX-License-Identifier: GPL-2.0-or-later
# machine: two-tier
# timeout: 400
# needs: hotset pghotd pghotctl
# shellcheck shell=dash

# Else the kernel, whose balancing is on at boot, moves the hot pages before the daemon is there.
echo 0 > "$NUMAB"
promote_conf
fast_scan
start_hotset --total-mib 128 --hot-mib 32 --fill-node 1 --thp never
sleep 1
start_pghotd || finish

explained()
{
	pghotctl --json explain "$HOTSET_PID" > "$OUT/explain.json" 2> "$OUT/explain.err" &&
		[ "$(json_get "$OUT/explain.json" verdict)" = move ] && [ "$(json_get "$OUT/explain.json" hot_bytes)" -gt 0 ]
}

if wait_for 60 explained; then
	ok "explain knows the program, that it may move, and that some of it did"
else
	not_ok "explain knows the program, that it may move, and that some of it did" \
		"$(json_get "$OUT/explain.json" verdict), $(json_get "$OUT/explain.json" hot_bytes) bytes"
fi
check "explain names it" "$(json_get "$OUT/explain.json" name)" = hotset
pghotctl explain "$HOTSET_PID" > "$OUT/explain.txt"
check "as a screen, too" "$(head -n 1 "$OUT/explain.txt")" = "hotset (pid $HOTSET_PID)"
pghotctl explain 4194304 > "$OUT/explain-none.txt" 2>&1
check "of what isn't known it says so" $? -eq 1

pghotctl --json heat > "$OUT/heat.json"
check "heat answers" $? -eq 0
check "the program has a row" -n "$(grep "\"pid\": $HOTSET_PID" "$OUT/heat.json")"
check "and heat in it" -n "$(grep '"rate_per_sec": [0-9.]*[1-9]' "$OUT/heat.json")"
pghotctl heat --pid "$HOTSET_PID" > "$OUT/heat.txt"
check "which shows as such" -z "$(grep 'the hottest has 0 samples' "$OUT/heat.txt")"
check "heat of the program has addresses" -n "$(grep '^  7' "$OUT/heat.txt")"
pghotctl heat --svg "$OUT/heat.svg"
check "heat makes a picture" -n "$(grep '</svg>' "$OUT/heat.svg")"

address=$(pghotctl --json heat --pid "$HOTSET_PID" | sed -n 's/.*"address": "\(0x[0-9a-f]*\)".*/\1/p' | head -n 1)
pghotctl --json explain "$HOTSET_PID:$address" > "$OUT/explain-region.json"
check "explain knows the hottest region" "$(json_get "$OUT/explain-region.json" region.address)" = "$address"
note "$(pghotctl explain "$HOTSET_PID:$address" | grep '^Why')"
range=$(printf '%d' "$address")
inside=$(awk -v at="$range" '
	function hex(s, i, n) { for (i = 1; i <= length(s); i++) n = n * 16 + index("0123456789abcdef", substr(s, i, 1)) - 1; return n }
	{ split($1, ends, "-"); if (hex(ends[1]) < at + 2097152 && hex(ends[2]) > at) { print "yes"; exit } }' \
	"/proc/$HOTSET_PID/maps")
check "which the program has mapped" "$inside" = yes

pghotctl top --json --count 1 > "$OUT/top.json"
check "top has the program" -n "$(grep "\"pid\":$HOTSET_PID" "$OUT/top.json")"
pghotctl top --batch --count 1 --by cgroup > "$OUT/top.txt"
check "top sums by control group" -n "$(grep 'CGROUP' "$OUT/top.txt")"
settle
metrics_agree()
{
	promoted=$(status_get promoted_bytes)
	metrics=$(pghotctl metrics | sed -n 's/^pghotd_promoted_bytes_total //p')
	[ "$metrics" = "$promoted" ]
}
# Something may be promoted between the two.
if wait_for 30 metrics_agree; then
	ok "metrics count what status does"
else
	not_ok "metrics count what status does" "$metrics, not $promoted"
fi

pghotctl doctor > "$OUT/doctor.txt"
note "doctor ends with $?"
check "doctor sees the tiers" -n "$(grep '^ok   tiers .*fast: node 0; slow: node 1' "$OUT/doctor.txt")"
check "and the source that works" -n "$(grep '^ok   hint_faults' "$OUT/doctor.txt")"
check "and nothing that is bad" -z "$(grep '^bad' "$OUT/doctor.txt")"

stop_pghotd
check "it ends with status 0" "$PGHOTD_STATUS" -eq 0
stop_hotset
pghotctl metrics > "$OUT/metrics-down.txt" 2> /dev/null
check "metrics without a daemon end with 3" $? -eq 3
check "and say that it is down" -n "$(grep '^pghotd_up 0$' "$OUT/metrics-down.txt")"
