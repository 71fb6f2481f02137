# NUMA balancing as an administrator left it: respected, told, and put back
# SPDX-License-Identifier: GPL-2.0-or-later
# machine: two-tier
# timeout: 400
# needs: hotset pghotd pghotctl
# shellcheck shell=dash

degraded()
{
	status_answers
	[ "$STATUS_EXIT" -eq 2 ]
}

# The kernel promotes by itself, and nobody is to change that: said, and shown by the exit status.
echo 65536 > "$RATE"
echo 2 > "$NUMAB"
write_conf 'mode = "observe";' 'sources = [ "hint_faults" ];'
fast_scan
start_pghotd || finish
start_hotset --total-mib 128 --hot-mib 32 --fill-node 1 --thp never
if wait_for 60 degraded; then
	ok "status exits with 2 where the kernel promotes"
else
	not_ok "status exits with 2 where the kernel promotes" "it exits with $STATUS_EXIT"
fi
kernel_seen()
{
	seen_now=$(status_get kernel.promoted_pages)
	[ "${seen_now:-0}" -gt 0 ]
}
if wait_for 60 kernel_seen; then
	ok "the kernel's pages are counted"
else
	place
	not_ok "the kernel's pages are counted" \
		"kernel.promoted_pages is 0, pgpromote_success $(vmstat pgpromote_success), $HOT_NEAR hot pages near"
fi
if wait_for 30 grep -qi 'kernel promotes' "$OUT/pghotd.log"; then
	ok "and told in the log"
else
	not_ok "and told in the log" "$(tail -n 1 "$OUT/pghotd.log")"
fi
check "the settings are left alone" "$(cat "$NUMAB") $(cat "$RATE")" = "2 65536"
stop_pghotd
check "it ends with status 0" "$PGHOTD_STATUS" -eq 0
stop_hotset

# Balancing between fast nodes was on, and pghotd was told to manage: that stays on, we promote, the kernel does not.
echo 1 > "$NUMAB"
: > "$OUT/pghotd.log"
promote_conf
fast_scan
start_pghotd || finish
kernel_promoted=$(vmstat pgpromote_success)
kernel_migrated=$(vmstat numa_pages_migrated)
check "balancing between fast nodes stays on" "$(cat "$NUMAB") $(cat "$RATE")" = "3 0"
start_hotset --total-mib 128 --hot-mib 32 --fill-node 1 --thp never
if wait_for 90 hot_near_at_least 95; then
	ok "the hot pages come near"
else
	not_ok "the hot pages come near" "$HOT_NEAR of $HOT_TOTAL"
fi
place
check "at most 5 % of the cold pages are near" $((COLD_NEAR * 100)) -le $((COLD_TOTAL * 5))
check "the kernel promoted nothing itself" "$(vmstat pgpromote_success)" -eq "$kernel_promoted"
check "the kernel's balancing moved nothing" "$(vmstat numa_pages_migrated)" -eq "$kernel_migrated"
stop_pghotd
check "it ends with status 0 again" "$PGHOTD_STATUS" -eq 0
check "the settings are as found" "$(cat "$NUMAB") $(cat "$RATE")" = "1 65536"
stop_hotset
