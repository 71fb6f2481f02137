# the kernel faults on slow pages and promotes none of them: mode 2 at a rate of 0
# SPDX-License-Identifier: GPL-2.0-or-later
# machine: two-tier
# timeout: 240
# needs: hotset
# shellcheck shell=dash

echo 2 > "$NUMAB"
echo 0 > "$RATE"
faults=$(vmstat numa_hint_faults)
updates=$(vmstat numa_pte_updates)
promoted=$(vmstat pgpromote_success)
migrated=$(vmstat numa_pages_migrated)
start_hotset --total-mib 128 --hot-mib 32 --fill-node 1 --thp never

# Two rounds over the hot pages; the first one comes within seconds, the kernel takes
# its time with the later ones.
two_rounds()
{
	[ $(($(vmstat numa_hint_faults) - faults)) -ge 16384 ]
}

begin=$(now_ms)
wait_for 120 two_rounds
sleep 1
place
taken=$(($(vmstat numa_hint_faults) - faults))
updates=$(($(vmstat numa_pte_updates) - updates))
note "$taken hint faults and $updates page table updates in $(($(now_ms) - begin)) ms"
check "hint faults were taken, two for each hot page" "$taken" -ge 16384
check "page table entries were made to fault" "$updates" -gt 8192
check "pgpromote_success stayed" "$(vmstat pgpromote_success)" -eq "$promoted"
check "numa_pages_migrated stayed" "$(vmstat numa_pages_migrated)" -eq "$migrated"
check "every page is still far" "$HOT_NEAR/$COLD_NEAR" = "0/0"
stop_hotset
