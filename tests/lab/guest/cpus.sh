# SPDX-License-Identifier: GPL-2.0-or-later
# What tests of CPUs that go and come share; they run on a machine with IBS.
# shellcheck shell=dash
# IBS_DEBUG, IBS_PMU and ibs_value come from lib.sh.
# shellcheck disable=SC2154

# cpus: that the open source samples; the others have none.
cpus()
{
	wait_for 30 status_answers
	grep -o '"cpus": *[0-9]*' "$OUT/status.json" | tr -cd '0-9\n' | sort -n | tail -n 1
}

asked()
{
	ibs_value "$(grep "^cpu=$1 " "$IBS_DEBUG/asked")" "$2"
}

emitted()
{
	ibs_value "$(grep "^cpu=$1 " "$IBS_DEBUG/stats")" emitted
}

daemon_knows_both()
{
	[ "$(cpus)" -eq 2 ]
}

both_active()
{
	[ "$(asked 0 active) $(asked 1 active)" = "1 1" ]
}

both_emitted()
{
	[ "$(emitted 0)" -gt "$seen_0" ] && [ "$(emitted 1)" -gt "$seen_1" ]
}

# both_sampled: each CPU has an event in its hardware, known to the daemon, and samples come from it. Both have work.
both_sampled()
{
	if wait_for 60 both_active; then
		ok "both CPUs have an event again"
	else
		not_ok "both CPUs have an event again" "active on CPU 0: $(asked 0 active), on CPU 1: $(asked 1 active)"
	fi
	wait_for 30 daemon_knows_both
	check "and the daemon knows" "$(cpus)" -eq 2
	seen_0=$(emitted 0) seen_1=$(emitted 1)
	if wait_for 60 both_emitted; then
		ok "both CPUs give samples"
	else
		not_ok "both CPUs give samples" "CPU 0: $(($(emitted 0) - seen_0)), CPU 1: $(($(emitted 1) - seen_1)) since"
	fi
}

# job_is_done: the hot pages come near, by those samples.
job_is_done()
{
	if wait_for 150 hot_near_at_least 95; then
		ok "the hot pages are near"
	else
		not_ok "the hot pages are near" "$(percent "$HOT_NEAR" "$HOT_TOTAL") % of $HOT_TOTAL"
	fi
	place
	check "at most 5 % of the cold pages are near" $((COLD_NEAR * 100)) -le $((COLD_TOTAL * 5))
}

# log_has_only WORDS: nothing in the daemon's log but what belongs there, and lines that match WORDS. A status command
# that gave up on a machine as slow as this one is the command's affair.
log_has_only()
{
	grep -vE "^pghotd: (tier |source ibs: running|promoting|running in mode|promoted |stopping|control socket: process|system bus: |$1)" \
		"$OUT/pghotd.log" > "$OUT/unexpected.txt"
	check "the log has no other line" ! -s "$OUT/unexpected.txt"
}

# A daemon on IBS, and a workload on both CPUs with its memory far.
sample_both_cpus()
{
	echo 0 > "$NUMAB"
	write_conf 'mode = "promote";' 'sources = [ "ibs" ];' "ibs = { pmu = \"$IBS_PMU\"; period = 10000; };" \
		'promote = { freq_threshold = 1; };'
	start_pghotd || finish
	start_hotset --total-mib 64 --hot-mib 16 --fill-node 1 --thp never --threads 2 --report-ms 4000
	wait_for 30 daemon_knows_both
	check "both CPUs are sampled" "$(cpus)" -eq 2
}
