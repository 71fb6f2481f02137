# a CPU goes and comes back while pages are promoted: no error, and it is sampled again
# SPDX-License-Identifier: GPL-2.0-or-later
# machine: two-tier
# timeout: 150
# needs: hotset pghotd pghotctl
# shellcheck shell=dash

# Of the source that is open; the others have none.
cpus()
{
	status_answers
	grep -o '"cpus": *[0-9]*' "$OUT/status.json" | tr -cd '0-9\n' | sort -n | tail -n 1
}

online=/sys/devices/system/cpu/cpu1/online
promote_conf
fast_scan
start_pghotd || finish
check "both CPUs are sampled" "$(cpus)" -eq 2
i=0
while [ $i -lt 10 ]; do
	echo 0 > $online
	usleep 200000
	echo 1 > $online
	usleep 200000
	i=$((i + 1))
done
start_hotset --total-mib 128 --hot-mib 32 --fill-node 1 --thp never --threads 2
if wait_for 40 hot_near_at_least 95; then
	ok "the hot pages come near after ten rounds"
else
	not_ok "the hot pages come near after ten rounds" "$HOT_NEAR of $HOT_TOTAL"
fi
check "both CPUs are sampled again" "$(cpus)" -eq 2
check "the log has ten comings and goings" \
	"$(grep -c 'CPU 1 went offline' "$OUT/pghotd.log") $(grep -c 'CPU 1 came online: sampling' "$OUT/pghotd.log")" = "10 10"
check "nothing failed" -z "$(grep -i 'cannot' "$OUT/pghotd.log")"
stop_hotset
check_identity
stop_pghotd
check "it ends with status 0" "$PGHOTD_STATUS" -eq 0
