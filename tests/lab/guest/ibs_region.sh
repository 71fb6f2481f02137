# SPDX-License-Identifier: GPL-2.0-or-later
# How many samples each policy takes for the same job; read by tests/ibs-region.sh.
# shellcheck shell=dash
# IBS_DEBUG and what begins with ibs_ come from lib.sh.
# shellcheck disable=SC2153,SC2154

# counter KEY: of the status that was asked for last. Taking a JSON text apart takes seconds here.
counter()
{
	sed -n "s/.*\"$1\": *\([0-9]*\).*/\1/p" "$OUT/status.json" | head -n 1
}

# job POLICY SAMPLES-A-SECOND MOST SECONDS: from all pages far until 95 % of the hot ones are near, it had MOST samples or
# time is up. SAMPLES are no fewer than it had when they were near; the daemon's own and the kernel's, of which there are
# more the shorter the period is, don't count. How fast the reader is depends on what else the host has to do, so its
# misses are counted first.
job()
{
	start_hotset --total-mib 128 --hot-mib 32 --fill-node 1 --thp never --report-ms 16000000
	place
	check "$1: all pages are far at first" "$((HOT_NEAR + COLD_NEAR))" -eq 0
	job_misses=$(ibs_truth 1 user_misses)
	job_begin=$(now_ms)
	sleep 3
	job_misses=$((($(ibs_truth 1 user_misses) - job_misses) * 1000 / ($(now_ms) - job_begin)))
	job_period=$((job_misses * OPS_PER_MISS / $2))
	write_conf 'mode = "promote";' 'sources = [ "ibs" ];' "ibs = { pmu = \"$IBS_PMU\"; period = $job_period; };" \
		"promote = { policy = \"$1\"; freq_window_ms = 15000; };"
	start_pghotd || finish
	job_begin=$(now_ms)
	SAMPLES=0
	while [ $(($(now_ms) - job_begin)) -lt $(($4 * 1000)) ] && [ "$SAMPLES" -lt "$3" ]; do
		usleep 500000
		status_answers || continue
		SAMPLES=$(counter useful)
		echo "$1 $(($(now_ms) - job_begin)) ms: $SAMPLES samples, $(counter promoted_pages) pages"
		# to ask where all pages are takes seconds as well
		[ $(($(counter promoted_pages) * 20)) -lt $((HOT_TOTAL * 19)) ] && continue
		place
		[ $((HOT_NEAR * 20)) -ge $((HOT_TOTAL * 19)) ] && break
	done
	# with these samples at least, where they were too few
	place
	JOB_NEAR=$HOT_NEAR
	note "$1: $HOT_NEAR of $HOT_TOTAL hot pages near after $(($(now_ms) - job_begin)) ms and $SAMPLES samples," \
		"$COLD_NEAR of $COLD_TOTAL cold ones; $job_misses misses a second, period $job_period"
	cp "$OUT/status.json" "$OUT/status-$1.json"
}

job_ends()
{
	stop_pghotd
	check "$1: the daemon ends with status 0" "$PGHOTD_STATUS" -eq 0
	stop_hotset
}

region_counts_all()
{
	status_answers && [ "$(counter promoted_pages)" -ge $((HOT_NEAR + COLD_NEAR)) ]
}

ibs_region()
{
	echo 0 > "$NUMAB"
	OPS_PER_MISS=40
	job region 50 1000000 240
	check "region: 95 % of the hot pages come near" $((JOB_NEAR * 20)) -ge $((HOT_TOTAL * 19))
	region_samples=$SAMPLES
	# what is moved late
	sleep 3
	place
	check "region: at most 5 % of the cold pages are near" $((COLD_NEAR * 20)) -le "$COLD_TOTAL"
	wait_for 30 region_counts_all
	check "region: promoted_pages is no less than the placement shows" \
		"$(status_get promoted_pages)" -ge $((HOT_NEAR + COLD_NEAR))
	job_ends region
	# As many samples in a window as the page rule needs: at the pace of the other it would never get there.
	job page 2000 $((region_samples * 20)) 300
	check "page: it had 20 times the samples" "$SAMPLES" -ge $((region_samples * 20))
	# each page that was found, whether or not it was moved by then; some twice
	page_found=$(counter became_ready)
	note "page: it has found $page_found of $HOT_TOTAL"
	check "page: with these it hasn't found 95 % of the hot pages" $((page_found * 20)) -lt $((HOT_TOTAL * 19))
	check "page: nor are they near" $((JOB_NEAR * 20)) -lt $((HOT_TOTAL * 19))
	job_ends page
}
