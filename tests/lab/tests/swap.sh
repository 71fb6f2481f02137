# memory of a control group that goes to swap is left in peace, and moved again afterwards
# SPDX-License-Identifier: GPL-2.0-or-later
# machine: two-tier
# timeout: 500
# needs: hotset pghotd pghotctl
# modules: zram
# shellcheck shell=dash disable=SC1091,SC2154

. /lab/peace.sh

CAUSE='its memory goes to swap'

# The group's limit goes down by a bit, below what hotset has and never reads.
swap_out()
{
	[ "$limit" -gt 112 ] || return 1
	limit=$((limit - 4))
	echo "${limit}M" > "$GROUP/memory.max"
	in_peace_soon "$CAUSE"
}

echo 64M > /sys/block/zram0/disksize || give_up "there is a disk for swap" "zram0 takes no size"
mkswap /dev/zram0 > /dev/null
swapon /dev/zram0 || give_up "there is swap" "swapon failed"
start_in_group "$NO_PRESSURE" charged --total-mib 160 --hot-mib 96
limit=160
if wait_for 90 swap_out; then
	ok "the guard holds"
else
	give_up "the guard holds" "limit $limit MiB, $(($(cat "$GROUP/memory.swap.current") >> 10)) KiB in swap"
fi
note "limit $limit MiB, $(($(cat "$GROUP/memory.swap.current") >> 10)) KiB in swap"
check_peace "$CAUSE" guard_swap
check "nobody was killed" "$(status_get counters.guard_oom)" -eq 0
check_resumed
end_peace
stop_hotset
rmdir "$GROUP"
swapoff /dev/zram0
echo 1 > /sys/block/zram0/reset
