# memory of a control group whose tasks wait for memory is left in peace, and moved again afterwards
# SPDX-License-Identifier: GPL-2.0-or-later
# machine: two-tier
# timeout: 500
# needs: hotset pghotd pghotctl
# shellcheck shell=dash disable=SC1091,SC2154

. /lab/peace.sh

CAUSE='its tasks wait for memory'

start_in_group 5 elsewhere --total-mib 112 --hot-mib 96
# Whoever takes more than this is made to wait, and nobody is killed.
echo 8M > "$GROUP/memory.high"
sh -c "echo 0 > $GROUP/cgroup.procs; exec tail /dev/zero" > /dev/null 2>&1 &
GREEDY_PID=$!
if wait_for 90 in_peace "$CAUSE"; then
	ok "the guard holds"
else
	give_up "the guard holds" "memory.pressure: $(head -n 1 "$GROUP/memory.pressure")"
fi
check_peace "$CAUSE" guard_pressure
note "memory.pressure: $(head -n 1 "$GROUP/memory.pressure")"
check "nobody was killed" "$(status_get counters.guard_oom)" -eq 0
kill -KILL "$GREEDY_PID"
check_resumed
end_peace
stop_hotset
rmdir "$GROUP"
