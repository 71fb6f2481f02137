# the mover costs what a bare move_pages() loop costs
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
note "mover $(cost mover_cost) us a page, bare loop $(cost bare_cost), ratio $(cost mover_to_bare)"
check "the mover costs at most 1.05 of a bare loop" \
	"$(awk -v r="$(cost mover_to_bare)" 'BEGIN { print r <= 1.05 ? 1 : 0 }')" -eq 1
