# SPDX-License-Identifier: GPL-2.0-or-later
# The job by hardware samples alone, for the PMU that the machine has; the tests of each PMU read this file.
# shellcheck shell=dash

# identity: what was decoded and what became of it; at rest they are the same.
identity()
{
	total=$(status_get counters.total)
	sum=$(grep -oE '"(useful|dropped_[a-z_]+|discarded_[a-z_]+)": *[0-9]+' "$OUT/status.json" |
		sed 's/.*: *//' | awk '{ s += $1 } END { print s + 0 }')
	note "total $total, useful + dropped + discarded $sum"
	[ $((total - sum)) -ge 0 ] && [ $((total - sum)) -le 200 ]
}

# ibs_hotset NODE: the reader, filled on NODE. Its placement is asked for seldom: a look at all pages takes long here.
ibs_hotset()
{
	start_hotset --total-mib 128 --hot-mib 32 --fill-node "$1" --thp never --report-ms 4000
	sleep 2
}

# accesses_now: of the reader so far; it is asked for its placement at the same time.
accesses_now()
{
	place
	grep '^final' /tmp/hotset.txt | tail -n 1 | grep -o 'accesses=[0-9]*' | tr -cd 0-9
}

# reads_per_sec SECONDS: a note on its speed, for the reader of the log; a busy host makes it too uneven to be judged.
reads_per_sec()
{
	first=$(accesses_now)
	begin_ms=$(now_ms)
	sleep "$1"
	last=$(accesses_now)
	echo $(((last - first) * 1000 / ($(now_ms) - begin_ms)))
}

ibs_promote()
{
	echo 0 > "$NUMAB"
	faults=$(vmstat numa_hint_faults)
	updates=$(vmstat numa_pte_updates)
	kernel_promoted=$(vmstat pgpromote_success)
	kernel_migrated=$(vmstat numa_pages_migrated)
	write_conf 'mode = "promote";' 'sources = [ "ibs" ];' "ibs = { pmu = \"$IBS_PMU\"; period = $1; };"
	ibs_hotset 0
	all_near=$(reads_per_sec 5)
	stop_hotset
	ibs_hotset 1
	all_far=$(reads_per_sec 5)
	place
	check "all pages are far at first" "$((HOT_NEAR + COLD_NEAR))" -eq 0
	start_pghotd || finish
	begin=$(now_ms)
	if wait_for "$2" hot_near_at_least 95; then
		ok "95 % of the hot pages come near"
	else
		not_ok "95 % of the hot pages come near" "$(percent "$HOT_NEAR" "$HOT_TOTAL") % of $HOT_TOTAL after $2 s"
	fi
	note "$(percent "$HOT_NEAR" "$HOT_TOTAL") % near after $((($(now_ms) - begin) / 1000)) s"
	place
	check "at most 5 % of the cold pages are near" $((COLD_NEAR * 100)) -le $((COLD_TOTAL * 5))
	check "promoted_pages is no less than the placement shows" \
		"$(status_get promoted_pages)" -ge $((HOT_NEAR + COLD_NEAR))
	check "status exits with 0" "$STATUS_EXIT" -eq 0
	check "no hint fault was needed" "$(vmstat numa_hint_faults) $(vmstat numa_pte_updates)" = "$faults $updates"
	check "the kernel promoted nothing" "$(vmstat pgpromote_success) $(vmstat numa_pages_migrated)" = \
		"$kernel_promoted $kernel_migrated"

	# An option changed live shows in what the PMU was asked for.
	pghotctl tune ibs.period=1048576 > "$OUT/tune.txt" 2>&1
	check "the period is changed live" $? -eq 0
	check "and the PMU has it" -n "$(grep 'programmed=1048576' "$IBS_DEBUG/asked")"
	if identity; then
		ok "every sample ended in one counter"
	else
		not_ok "every sample ended in one counter" "$total against $sum"
	fi
	note "reads per second: all near $all_near, all far $all_far, promoted $(reads_per_sec 5)"
	stop_pghotd
	check "it ends with status 0" "$PGHOTD_STATUS" -eq 0
	stop_hotset
}
