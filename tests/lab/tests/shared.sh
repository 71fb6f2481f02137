# eight processes share 64 MiB: left alone with the way to change that, then moved once, not eight times
# SPDX-License-Identifier: GPL-2.0-or-later
# machine: two-tier
# timeout: 300
# needs: hotset pghotd pghotctl
# shellcheck shell=dash disable=SC1091,SC2154

. /lab/kinds.sh

echo 0 > "$NUMAB"
fast_scan
by_kernel=$(vmstat numa_pages_migrated)
promote_conf
start_kind shared '' --total-mib 64 --hot-mib 32 --thp never --processes 8 --memory shared
start_pghotd || finish
check_left shared 20000000 60
check_far shared
pghotctl status > "$OUT/status-shared.txt"
check "the setting that would move it is named" -n "$(grep 'shared = true' "$OUT/status-shared.txt")"
stop_pghotd

promote_conf 'kinds = { shared = true; };'
start_pghotd || finish
check_near shared 60
settle
moved_once()
{
	near=$(near_pages shared)
	promoted=$(status_get promoted_pages)
	# Pages that the kernel was about to look at when the first daemon took its settings back are its own to move.
	moved_by_kernel=$(($(vmstat numa_pages_migrated) - by_kernel))
	[ $((promoted + moved_by_kernel)) -ge "$near" ] && [ "$promoted" -le $((near + 64)) ]
}
# Some may come near between the looks.
if wait_for 30 moved_once; then
	ok "the shared pages moved, and each once"
else
	not_ok "the shared pages moved, and each once" "see the figures"
fi
note "shared: promoted_pages $promoted, by the kernel $moved_by_kernel, near $near"
stop_pghotd
check "it ends with status 0" "$PGHOTD_STATUS" -eq 0
stop_kinds
