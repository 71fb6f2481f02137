# a thousand short-lived programs a minute beside a busy one: no line of an error, and none of them is remembered
# SPDX-License-Identifier: GPL-2.0-or-later
# machine: two-tier
# timeout: 700
# needs: hotset pghotd pghotctl trouble
# shellcheck shell=dash disable=SC1091,SC2154

. /lab/kinds.sh

owners()
{
	status_get map.owners
}
as_before()
{
	owners_now=$(owners)
	[ "${owners_now:-9999}" -le $((owners_before + 3)) ]
}

echo 0 > "$NUMAB"
promote_conf
fast_scan
start_pghotd || finish
start_kind plain '' --total-mib 32 --hot-mib 16 --thp never
check_near plain 60
settle
owners_before=$(owners)
trouble short 1000 1000 > "$OUT/short.txt" 2>&1 &
crowd=$!
# While they come and go.
owners_most=0
until gone $crowd; do
	owners_now=$(owners)
	[ "${owners_now:-0}" -gt "$owners_most" ] && owners_most=$owners_now
	usleep 500000
done
wait $crowd
check "all of them ran" $? -eq 0
note "$(cat "$OUT/short.txt"); $owners_before processes known before, up to $owners_most meanwhile"
check "they were seen" "$owners_most" -gt $((owners_before + 3))
if wait_for 60 as_before; then
	ok "they are forgotten"
else
	not_ok "they are forgotten" "$owners_now processes are known, $owners_before before"
fi
note "owners_gone $(status_get counters.owners_gone), move_gone $(status_get counters.move_gone)"
check "no line of an error" -z "$(grep -iE 'cannot|failed|error|permitted' "$OUT/pghotd.log")"
kind_near plain 95
check "the busy one's pages are near still" $? -eq 0
stop_pghotd
check "it ends with status 0" "$PGHOTD_STATUS" -eq 0
stop_kinds
