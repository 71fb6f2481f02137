# more is hot than fits on the fast node, and the kernel demotes: migrations fall by 90 % within a minute
# SPDX-License-Identifier: GPL-2.0-or-later
# machine: two-tier
# timeout: 400
# needs: hotset pghotd pghotctl
# shellcheck shell=dash

DEMOTION=/sys/kernel/mm/numa/demotion_enabled

# Pages that were migrated in the last five seconds, either way, into RATE.
measure()
{
	measure_begin=$(vmstat pgmigrate_success)
	measure_end=$(($(now_ms) + 5000))
	until [ "$(now_ms)" -ge "$measure_end" ]; do
		usleep 200000
	done
	RATE_5S=$(($(vmstat pgmigrate_success) - measure_begin))
}

by_exchange()
{
	[ "$(status_get room.way)" = exchange ]
}

echo 1 > "$DEMOTION"
echo 0 > "$NUMAB"
fast_scan
promote_conf 'make_room = "auto";' 'guard = { resume_after_sec = 600; };'

# Most of the fast node is locked, so that 300 MiB of hot memory are about twice what is left of it.
free_mib=$(awk '$3 == "MemFree:" { print int($4 / 1024) }' /sys/devices/system/node/node0/meminfo)
hotset --report /tmp/locked.txt --total-mib $((free_mib - 200)) --hot-mib 1 --fill-node 0 --thp never \
	--memory locked > "$OUT/locked.txt" 2>&1 &
LOCKED_PID=$!
wait_for 120 test -s /tmp/locked.txt || give_up "most of the fast node is locked" "$(tail -n 1 "$OUT/locked.txt")"
kill -STOP "$LOCKED_PID"
start_hotset --total-mib 320 --hot-mib 300 --fill-node 1 --thp never
demoted=$(vmstat pgdemote_kswapd)
start_pghotd || finish
check "the way is the kernel's" "$(status_get room.way)" = kernel

# The most of any five seconds, and the first five a minute or less after them that have a tenth of it.
most=0 since=0 fell=
end=$(($(now_ms) + 240000))
while [ "$(now_ms)" -lt "$end" ]; do
	measure
	if [ "$RATE_5S" -gt "$most" ]; then
		most=$RATE_5S
		since=$(now_ms)
		fell=
	elif [ "$most" -gt 2000 ] && [ $((RATE_5S * 10)) -le "$most" ]; then
		[ -n "$fell" ] || fell=$(($(now_ms) - since))
		# It stays so for half a minute.
		[ "$(now_ms)" -ge $((since + fell + 30000)) ] && break
	elif [ -n "$fell" ]; then
		fell=
	fi
done
status_answers
pghotctl status > "$OUT/status.txt"
note "$most pages in the busiest 5 s, $RATE_5S in the last; $(($(vmstat pgdemote_kswapd) - demoted)) demoted," \
	"$(json_get "$OUT/status.json" promoted_pages) promoted; $(json_get "$OUT/status.json" limiting);" \
	"$(json_get "$OUT/status.json" guard.cause)"
check "there were migrations" "$most" -gt 2000
if [ -n "$fell" ] && [ "$fell" -le 65000 ]; then
	ok "migrations fall by 90 % within a minute"
else
	not_ok "migrations fall by 90 % within a minute" "fell after ${fell:-never} ms"
fi
# Nothing tells of that; it is looked at once a minute.
echo 0 > "$DEMOTION"
if wait_for 100 by_exchange; then
	ok "the way is another one when demotion is switched off"
else
	not_ok "the way is another one when demotion is switched off" "it is still $(status_get room.way)"
fi
stop_pghotd
check "it ends with status 0" "$PGHOTD_STATUS" -eq 0
kill -KILL "$LOCKED_PID"
stop_hotset
