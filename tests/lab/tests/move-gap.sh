# who reads pages on their way waits a third as long in the smallest batches as in one call; promote.stall_ms is kept
# SPDX-License-Identifier: GPL-2.0-or-later
# machine: counted
# timeout: 300
# needs: movecost
# shellcheck shell=dash

echo 0 > "$NUMAB"
movecost --gaps --mib=128 > "$OUT/gaps.txt" 2>&1 || give_up "the benchmark runs" "$(tail -n 1 "$OUT/gaps.txt")"
gap()
{
	awk -v name="$1" '$1 == name { print $2 }' "$OUT/gaps.txt"
}
for size in 8 32 128 512 32768; do
	note "batches of $size: $(gap batch_${size}_waits) waits, $(gap batch_${size}_gap_p50) us at the median," \
		"$(gap batch_${size}_gap_p90) at p90, $(gap batch_${size}_gap_p99) at p99," \
		"$(gap batch_${size}_gap_p999) at p99.9, $(gap batch_${size}_cost) us a page"
	check "all pages moved in batches of $size" "$(gap batch_${size}_moved)" -eq 32768
done
note "nothing moving: p99.9 gap $(gap still_gap_p999) us"
check "p99.9 gap in batches of 8 is at most 0.35 of that of one call for all" \
	$(($(gap batch_8_gap_p999) * 100)) -le $(($(gap batch_32768_gap_p999) * 35))
for stall in 5 10 20; do
	note "stall_ms $stall: batches of $(gap stall_${stall}_batch), at most $(gap stall_${stall}_largest)," \
		"$(gap stall_${stall}_waits) waits, $(gap stall_${stall}_gap_p50) us at the median," \
		"$(gap stall_${stall}_gap_p90) at p90, $(gap stall_${stall}_gap_p99) at p99," \
		"$(gap stall_${stall}_gap_p999) at p99.9, $(gap stall_${stall}_cost) us a page"
	# It is an aim, by what the last calls took. Of some hundred waits the p99.9 is the longest: the kernel's own
	# threads may have run in the middle of that one.
	check "with stall_ms $stall 99 waits in 100 are no longer" "$(gap stall_${stall}_gap_p99)" -le $((stall * 1000))
	check "and it moves all" "$(gap stall_${stall}_moved)" -eq 32768
done
check "a longer stall time makes larger batches" "$(gap stall_20_batch)" -gt "$(gap stall_5_batch)"
