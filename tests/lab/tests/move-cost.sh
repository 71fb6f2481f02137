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
note "a page: bare loop $(cost bare_cost) us; mover $(cost mover_call_cost) us in the call (ratio $(cost calls_ratio))," \
	"$(cost mover_beside_cost) us beside it; in all $(cost mover_to_bare) of the bare loop"
check "the mover costs at most 1.05 of a bare loop" \
	"$(awk -v r="$(cost mover_to_bare)" 'BEGIN { print (r > 1 && r <= 1.05) }')" -eq 1
check "its move calls are those of the bare loop" \
	"$(awk -v r="$(cost calls_ratio)" 'BEGIN { print (r > 0.8 && r < 1.25) }')" -eq 1
