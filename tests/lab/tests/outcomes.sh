# each outcome of a move and each kind of page, by where the pages are before and after, and by what was charged
# SPDX-License-Identifier: GPL-2.0-or-later
# machine: two-tier
# timeout: 500
# needs: outcomes
# shellcheck shell=dash

echo 0 > "$NUMAB"
echo 0 > /sys/kernel/mm/numa/demotion_enabled
# Else khugepaged may come by memory that could be huge just while that is moved page by page. This makes it come by once
# more, at once, when there is no such memory yet.
echo 3600000 > /sys/kernel/mm/transparent_hugepage/khugepaged/scan_sleep_millisecs
outcomes > "$OUT/outcomes.txt" 2> "$OUT/outcomes.err"
status=$?
while read -r line; do
	event "$(echo "$line" | sed "s/^\(not ok\|ok\|skip\) /\1 $TEST: /")"
done < "$OUT/outcomes.txt"
check "the program ends well, and has nothing to say of itself" "$status $(wc -l < "$OUT/outcomes.err")" = "0 0"
check "no case is missing" "$(wc -l < "$OUT/outcomes.txt")" -ge 27
