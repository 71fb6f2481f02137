# beside a helper that systemd starts: rights of both, a helper that is killed, and who takes the daemon over
# SPDX-License-Identifier: GPL-2.0-or-later
# machine: debian
# timeout: 500
# needs: hotset outsider
# shellcheck shell=dash

conf=/etc/pghotd.conf
online=/sys/devices/system/cpu/cpu1/online

property()
{
	systemctl show --value -p "$1" "${2:-pghotd}"
}

main_has()
{
	sed -n "s/^$1:[[:space:]]*//p" "/proc/$(property MainPID)/status"
}

settings_are()
{
	[ "$(cat "$NUMAB") $(cat "$RATE")" = "$1" ]
}

status_exits()
{
	pghotctl status > /dev/null 2>&1
	[ $? -eq "$1" ]
}

another_helper()
{
	[ "$(property MainPID pghotd-helper)" -gt 0 ] && [ "$(property MainPID pghotd-helper)" != "$helper" ]
}

both_cpus()
{
	pghotctl status --json 2>/dev/null | grep -q '"cpus": *2'
}

# becomes NAME SECONDS COMMAND...
becomes()
{
	becomes_name=$1
	shift
	if wait_for "$@"; then
		ok "$becomes_name"
	else
		not_ok "$becomes_name" "$(systemctl status --no-pager pghotd pghotd-helper 2>&1 | tail -n 3 | tr '\n' ' ')"
	fi
}

check "perf events are for nobody but root" "$(cat /proc/sys/kernel/perf_event_paranoid)" -eq 3
# What another test of this machine left, and what this one needs.
systemctl stop pghotd
for block in /sys/devices/system/node/node1/memory[0-9]*; do
	[ "$(cat "$block/state")" = offline ] && echo online_movable > "$block/state"
done
echo 0 > "$NUMAB"
echo 4321 > "$RATE"
cp $conf "$OUT/before.conf"
grep -q 'manage_sysctls = true' $conf || echo 'hint_faults = { manage_sysctls = true; };' >> $conf

systemctl start pghotd
becomes "it promotes" 60 status_exits 0
check "as its own user" "$(main_has Uid | tr -s '\t ' '\n' | sort -u)" = "$(id -u pghotd)"
# CAP_IPC_LOCK, CAP_SYS_PTRACE, CAP_SYS_NICE
check "with three capabilities" "$(main_has CapEff)" = 0000000000884000
wait_for 30 settings_are "2 0"
check "the settings are set" "$(cat "$NUMAB") $(cat "$RATE")" = "2 0"
check "what to put back is root's alone" "$(stat -c '%u %a' /run/pghotd-helper/saved)" = "0 600"
check "the control socket is the group's" "$(stat -c '%G %a' /run/pghotd/bus)" = "pghot 660"

helper=$(property MainPID pghotd-helper)
systemctl kill --signal=KILL pghotd-helper
becomes "a helper that is killed is started again" 60 another_helper
echo 0 > $online
echo 1 > $online
becomes "and opens the events of a CPU that came back" 60 both_cpus
check "pghotd ran on" "$(property NRestarts)" -eq 0

timeout 250 outsider "$(property MainPID)" > "$OUT/outsider.txt" 2>&1
check "the attempts were made" $? -eq 0
check "of all that was tried only its own event was had" "$(grep -v ^refused "$OUT/outsider.txt")" = "had an event of pghotd"
check "each of the nineteen others was refused" "$(grep -c ^refused "$OUT/outsider.txt")" -eq 19

systemctl stop pghotd
check "a clean stop puts the settings back" "$(cat "$NUMAB") $(cat "$RATE")" = "0 4321"
check "it is inactive, not failed" "$(systemctl is-active pghotd)" = inactive
cp "$OUT/before.conf" $conf
journalctl --no-pager -u pghotd -u pghotd-helper > "$OUT/journal.txt"
