# memory of a control group in which the kernel kills for want of memory is left in peace, and moved again afterwards
# SPDX-License-Identifier: GPL-2.0-or-later
# machine: two-tier
# timeout: 500
# needs: hotset pghotd pghotctl
# shellcheck shell=dash disable=SC1091,SC2154

. /lab/peace.sh

CAUSE='a process of it was killed for want of memory'

# One that takes memory until it is killed.
overuse()
{
	sh -c "echo 1000 > /proc/self/oom_score_adj; echo 0 > $GROUP/cgroup.procs; exec tail /dev/zero" > /dev/null 2>&1
	in_peace_soon "$CAUSE"
}

start_in_group "$NO_PRESSURE" elsewhere --total-mib 112 --hot-mib 96
echo 16M > "$GROUP/memory.max"
if wait_for 60 overuse; then
	ok "the guard holds"
else
	give_up "the guard holds" "oom_kill: $(tr '\n' ' ' < "$GROUP/memory.events")"
fi
check_peace "$CAUSE" guard_oom
check_resumed

# The group goes while the guard holds it.
wait_for 60 overuse || not_ok "the guard holds once more" "oom_kill: $(tr '\n' ' ' < "$GROUP/memory.events")"
stop_hotset
rmdir "$GROUP"
if wait_for 20 nobody_in_peace; then
	ok "a group that is deleted is forgotten"
else
	not_ok "a group that is deleted is forgotten" "$(json_get "$OUT/status.json" pressure.0.cgroup) is held still"
fi
end_peace
