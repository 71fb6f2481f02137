# SPDX-License-Identifier: GPL-2.0-or-later
# the demonstration: hot pages come near while a plain program runs
# machine: two-tier
# timeout: 180
# needs: hotset pghotd pghotctl
# shellcheck shell=dash
# What begins with ibs_ and IBS_ comes from lib.sh.
# shellcheck disable=SC2154

# With IBS samples cost this machine much, and so does asking where pages are. It gives a hundredth of the samples that
# hardware would, so one of a page has to do.
if [ "${IBS_PMU:-none}" != none ]; then
	source=ibs total_mib=64 hot_mib=16 pause_ms=2000 limit_ms=90000
else
	source=hint_faults total_mib=128 hot_mib=32 pause_ms=1000 limit_ms=45000
fi

status_number()
{
	grep -o "\"$1\": *[0-9]*" "$OUT/status.json" | head -n 1 | tr -cd 0-9
}

look()
{
	status_answers
	promoted=$(status_number promoted_pages)
	samples=$(status_number total)
}

# The host draws what comes in as KEY=VALUE words, and works out how fast the program was; see labdemo.py.
show()
{
	# On a host that is busy it may not answer in time; then the next line has it.
	place || return 0
	# Whatever a look costs is the program's loss here. So there is none where only its speed is of interest. It comes
	# last, so that no more is near than was moved.
	[ "$1" = run ] && look
	live "phase=$1 sec=$((($(now_ms) - begin) / 1000)) hot=$HOT_NEAR/$HOT_TOTAL" \
		"cold=$COLD_NEAR/$COLD_TOTAL promoted=$promoted samples=$samples" \
		"accesses=$(ibs_value "$(grep '^final' /tmp/hotset.txt | tail -n 1)" accesses)"
}

pause()
{
	usleep $((pause_ms * 1000))
}

echo 0 > "$NUMAB"
if [ $source = ibs ]; then
	write_conf 'mode = "promote";' 'sources = [ "ibs" ];' "ibs = { pmu = \"$IBS_PMU\"; period = 10000; };" \
		'promote = { freq_threshold = 1; };'
else
	promote_conf
	fast_scan
fi
promoted=0 samples=0
start_hotset --total-mib $total_mib --hot-mib $hot_mib --fill-node 1 --thp never --report-ms 600000
live "phase=start source=$source total=$total_mib hot=$hot_mib"
begin=$(now_ms)
for _ in 1 2 3 4; do
	show before
	pause
done
show before
begin=$(now_ms)
start_pghotd || finish
done_ms=
while [ -z "$done_ms" ] && [ $(($(now_ms) - begin)) -lt $limit_ms ]; do
	pause
	show run
	if [ $((HOT_NEAR * 100)) -ge $((HOT_TOTAL * 95)) ]; then
		done_ms=$(($(now_ms) - begin))
	fi
done
# The job is done, so it samples less from here on; and then the program's speed.
[ $source = ibs ] && pghotctl tune ibs.period=1000000 > "$OUT/tune.txt" 2>&1
for _ in 1 2 3 4 5; do
	pause
	show after
done
look
place
live "phase=end ms=${done_ms:-0} promoted=$promoted samples=$samples"
check "at least 95 % of the hot pages are near" $((HOT_NEAR * 100)) -ge $((HOT_TOTAL * 95))
check "at most 5 % of the cold pages are near" $((COLD_NEAR * 100)) -le $((COLD_TOTAL * 5))
stop_pghotd
check "the daemon ends with status 0" "$PGHOTD_STATUS" -eq 0
check "the kernel's setting is as found" "$(cat "$NUMAB")" = 0
stop_hotset
