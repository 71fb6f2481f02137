# the mover costs what a bare move_pages() loop costs; figures of how long who reads the pages waits, by batch
# SPDX-License-Identifier: GPL-2.0-or-later
# machine: two-tier
# timeout: 300
# needs: movecost
# shellcheck shell=dash

echo 0 > "$NUMAB"
movecost --mib=128 > "$OUT/cost.txt" 2>&1 || give_up "the benchmark runs" "$(tail -n 1 "$OUT/cost.txt")"
cost()
{
	awk -v name="$1" '$1 == name { print $2 }' "$OUT/cost.txt"
}
for size in 8 64 512 32768; do
	note "batches of $size: gap $(cost batch_${size}_gap_p50) us at the median, $(cost batch_${size}_gap_p999) at p99.9," \
		"longest $(cost batch_${size}_gap_longest) us, $(cost batch_${size}_cost) us a page"
	check "all pages moved in batches of $size" "$(cost batch_${size}_moved)" -eq 32768
done
note "nothing moving: p99.9 gap $(cost still_gap_p999) us"
note "mover $(cost mover_cost) us a page, bare loop $(cost bare_cost), ratio $(cost mover_to_bare)"
# The gaps are not judged: one emulator thread serves all CPUs, and the longest of some hundred waits is that of the
# host's other work.
check "the mover costs at most 1.05 of a bare loop" \
	"$(awk -v r="$(cost mover_to_bare)" 'BEGIN { print r <= 1.05 ? 1 : 0 }')" -eq 1
