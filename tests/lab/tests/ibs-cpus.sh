# a CPU goes and comes back again and again under load: it is sampled again each time, and the job gets done
# SPDX-License-Identifier: GPL-2.0-or-later
# machine: two-tier
# timeout: 400
# ibs: ibs_op,ops_per_miss=40
# needs: hotset pghotd pghotctl
# shellcheck shell=dash disable=SC1091,SC2154

. /lab/ibs_promote.sh
. /lab/cpus.sh

# A long check boots with this word.
rounds=20
grep -qw lab.long /proc/cmdline && rounds=200

online=/sys/devices/system/cpu/cpu1/online

sample_both_cpus
begin=$(now_ms)
i=0
while [ $i -lt $rounds ]; do
	echo 0 > $online
	# Every other time it comes back at once, and goes again at once: then the daemon hears of it late.
	[ $((i % 2)) -eq 0 ] && usleep 100000
	echo 1 > $online
	[ $((i % 4)) -lt 2 ] && usleep 100000
	i=$((i + 1))
done
note "$rounds rounds in $((($(now_ms) - begin) / 1000)) s, $(asked 1 opens) events were opened on CPU 1"
both_sampled
job_is_done
stop_hotset
check_identity
note "lost $(status_get counters.lost)"
each_going()
{
	[ "$(grep -c 'CPU 1 went offline' "$OUT/pghotd.log")" -eq $rounds ]
}
wait_for 30 each_going
check "the log has each going" "$(grep -c 'CPU 1 went offline' "$OUT/pghotd.log")" -eq $rounds
log_has_only 'CPU 1 (went offline|came online|is online): '
stop_pghotd
check "it ends with status 0" "$PGHOTD_STATUS" -eq 0
