# SPDX-License-Identifier: GPL-2.0-or-later
# the demonstration: hot pages come near while a plain program runs
# machine: two-tier
# timeout: 90
# needs: hotset pghotd pghotctl
# shellcheck shell=dash

# The host draws what comes in as KEY=VALUE words; see labdemo.py.
show()
{
	last_place
	live "phase=$1 sec=$((($(now_ms) - begin) / 1000)) hot=$HOT_NEAR/$HOT_TOTAL" \
		"cold=$COLD_NEAR/$COLD_TOTAL promoted=$promoted speed=$SPEED"
}

echo 0 > "$NUMAB"
promote_conf
promoted=0
fast_scan
start_hotset --total-mib 128 --hot-mib 32 --fill-node 1 --thp never --report-ms 500
begin=$(now_ms)
for _ in 1 2 3 4; do
	sleep 1
	show before
done
begin=$(now_ms)
start_pghotd || finish
done_ms=
while [ -z "$done_ms" ] && [ $(($(now_ms) - begin)) -lt 45000 ]; do
	usleep 500000
	promoted=$(status_get promoted_pages)
	show run
	if [ $((HOT_NEAR * 100)) -ge $((HOT_TOTAL * 95)) ]; then
		done_ms=$(($(now_ms) - begin))
	fi
done
# A few quiet seconds, for what comes late and for the program's speed without us.
sleep 4
promoted=$(status_get promoted_pages)
place
live "phase=end ms=${done_ms:-0} hot=$HOT_NEAR/$HOT_TOTAL cold=$COLD_NEAR/$COLD_TOTAL" \
	"promoted=$promoted speed=$SPEED"
check "at least 95 % of the hot pages are near" $((HOT_NEAR * 100)) -ge $((HOT_TOTAL * 95))
check "at most 5 % of the cold pages are near" $((COLD_NEAR * 100)) -le $((COLD_TOTAL * 5))
stop_pghotd
check "the daemon ends with status 0" "$PGHOTD_STATUS" -eq 0
check "the kernel's setting is as found" "$(cat "$NUMAB")" = 0
stop_hotset
