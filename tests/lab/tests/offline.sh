# memory of the target goes offline and comes back while pages are promoted: nothing holds it up, and the job gets done
# SPDX-License-Identifier: GPL-2.0-or-later
# machine: two-tier
# timeout: 300
# needs: hotset pghotd pghotctl
# shellcheck shell=dash

rounds=3
grep -qw lab.long /proc/cmdline && rounds=20

# set_block STATE: in how many ms, into BLOCK_MS; fails when the kernel won't.
set_block()
{
	block_begin=$(now_ms)
	echo "$1" > "$block/state" 2>/dev/null || return 1
	BLOCK_MS=$(($(now_ms) - block_begin))
}

# A block of the fast node that the kernel can empty; most hold something of its own.
find_block()
{
	for block in /sys/devices/system/node/node0/memory*; do
		set_block offline || continue
		alone_ms=$BLOCK_MS
		set_block online && return 0
	done
	return 1
}

echo 0 > "$NUMAB"
promote_conf 'promote = { rate_mib_per_sec = 8; };'
fast_scan
if ! find_block; then
	skip "memory goes offline meanwhile" "no block of node 0 can be taken off this machine"
	finish
fi
start_hotset --total-mib 128 --hot-mib 48 --fill-node 1 --thp never
start_pghotd || finish
moving()
{
	moving_now=$(status_get promoted_pages)
	[ "${moving_now:-0}" -gt 0 ]
}
wait_for 60 moving || not_ok "promotion begins" "nothing within 60 s"
i=0 refused=0 longest=0
while [ $i -lt $rounds ]; do
	if set_block offline; then
		[ "$BLOCK_MS" -gt "$longest" ] && longest=$BLOCK_MS
		usleep 500000
		set_block online || not_ok "the block comes back" "round $i"
	else
		refused=$((refused + 1))
	fi
	i=$((i + 1))
done
note "$((rounds - refused)) of $rounds times offline, in at most $longest ms; before, with nothing else going on, $alone_ms ms"
check "the block goes offline each time" $refused -eq 0
if wait_for 150 hot_near_at_least 95; then
	ok "the hot pages come near"
else
	not_ok "the hot pages come near" "$HOT_NEAR of $HOT_TOTAL"
fi
check "no line of an error" -z "$(grep -iE 'cannot|failed|error' "$OUT/pghotd.log")"
stop_pghotd
check "it ends with status 0" "$PGHOTD_STATUS" -eq 0
stop_hotset
