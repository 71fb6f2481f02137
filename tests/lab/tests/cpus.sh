# a CPU goes and comes back while pages are promoted: no error, and it is sampled again
# SPDX-License-Identifier: GPL-2.0-or-later
# machine: two-tier
# timeout: 400
# needs: hotset pghotd pghotctl
# shellcheck shell=dash

# Of the source that is open; the others have none.
cpus()
{
	status_answers
	grep -o '"cpus": *[0-9]*' "$OUT/status.json" | tr -cd '0-9\n' | sort -n | tail -n 1
}

both_cpus()
{
	[ "$(cpus)" -eq 2 ]
}

# logged WORDS NUMBER, for wait_for: so many lines. The next round begins when the daemon has told of the last one.
logged()
{
	[ "$(grep -c "$1" "$OUT/pghotd.log")" -eq "$2" ]
}

online=/sys/devices/system/cpu/cpu1/online
promote_conf
fast_scan
start_pghotd || finish
wait_for 30 both_cpus
check "both CPUs are sampled" "$(cpus)" -eq 2
i=0
while [ $i -lt 10 ]; do
	i=$((i + 1))
	echo 0 > $online
	wait_for 30 logged 'CPU 1 went offline' $i || not_ok "it is told that the CPU went" "not in round $i"
	echo 1 > $online
	wait_for 30 logged 'CPU 1 came online: sampling' $i || not_ok "it is told that the CPU came" "not in round $i"
done
start_hotset --total-mib 128 --hot-mib 32 --fill-node 1 --thp never --threads 2
if wait_for 90 hot_near_at_least 95; then
	ok "the hot pages come near after ten rounds"
else
	not_ok "the hot pages come near after ten rounds" "$HOT_NEAR of $HOT_TOTAL"
fi
wait_for 30 both_cpus
check "both CPUs are sampled again" "$(cpus)" -eq 2
check "the log has ten comings and goings" \
	"$(grep -c 'CPU 1 went offline' "$OUT/pghotd.log") $(grep -c 'CPU 1 came online: sampling' "$OUT/pghotd.log")" = "10 10"
check "nothing failed" -z "$(grep -i 'cannot' "$OUT/pghotd.log")"
stop_hotset
check_identity
stop_pghotd
check "it ends with status 0" "$PGHOTD_STATUS" -eq 0
