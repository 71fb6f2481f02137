# what an administrator does by systemctl, journalctl and pghotctl goes as the manual says, on Debian as it comes
# SPDX-License-Identifier: GPL-2.0-or-later
# machine: debian
# timeout: 900
# needs: hotset
# shellcheck shell=dash

conf=/etc/pghotd.conf

property()
{
	systemctl show --value -p "$1" pghotd
}

state()
{
	systemctl is-active pghotd
}

settings()
{
	echo "$(cat "$NUMAB") $(cat "$RATE")"
}

settings_are()
{
	[ "$(settings)" = "$1" ]
}

# does NAME STATUS COMMAND...: with that exit status; what it says is in $OUT/said.txt.
does()
{
	does_name=$1 does_want=$2
	shift 2
	"$@" > "$OUT/said.txt" 2>&1
	does_got=$?
	{
		echo "\$ $* ($does_got)"
		cat "$OUT/said.txt"
	} >> "$OUT/transcript.txt"
	if [ $does_got -eq "$does_want" ]; then
		ok "$does_name"
	else
		not_ok "$does_name" "exit $does_got: $(tail -n 1 "$OUT/said.txt")"
	fi
}

# says NAME PATTERN: what the last command said.
says()
{
	if grep -q -e "$2" "$OUT/said.txt"; then
		ok "$1"
	else
		not_ok "$1" "no \"$2\" in: $(head -c 300 "$OUT/said.txt" | tr '\n' ' ')"
	fi
}

# becomes NAME SECONDS COMMAND...: succeeds within that time.
becomes()
{
	becomes_name=$1
	shift
	if wait_for "$@"; then
		ok "$becomes_name"
	else
		not_ok "$becomes_name" "it is $(state), $(property StatusText); the settings are $(settings)"
	fi
}

status_exits()
{
	pghotctl status > /dev/null 2>&1
	[ $? -eq "$1" ]
}

journal_has()
{
	journalctl --no-pager -u pghotd 2>&1 | grep -q -e "$1"
}

# has_logged NAME PATTERN: the journal has what was just said a moment later.
has_logged()
{
	if wait_for 60 journal_has "$2"; then
		ok "$1"
	else
		not_ok "$1" "$(journalctl --no-pager -o cat -u pghotd | tail -n 1)"
	fi
}

# Whoever of pghotd's does it.
times_restored()
{
	journalctl --no-pager -o cat | grep -c "put kernel.numa_balancing back to 0"
}

another_main()
{
	[ "$(property MainPID)" -gt 0 ] && [ "$(property MainPID)" != "$main" ] && [ "$(state)" = active ]
}

says_promoting()
{
	systemctl status --no-pager pghotd | grep -q 'Status: "promoting'
}

anyone()
{
	patiently setpriv --reuid=1000 --regid=1000 --clear-groups "$@"
}

promoted_some()
{
	promoted_now=$(status_get promoted_pages)
	[ "${promoted_now:-0}" -gt 0 ]
}

journal_names_hotset()
{
	journalctl --no-pager -o cat "PGHOT_PID=$HOTSET_PID" | grep -q hotset
}

# Another test of this machine may have brought it online.
slow_is_offline()
{
	for block in /sys/devices/system/node/node1/memory[0-9]*; do
		[ "$(cat "$block/state")" = offline ] || echo offline > "$block/state" || return 1
	done 2>> "$OUT/offline.txt"
}

check "perf events are for nobody but root" "$(cat /proc/sys/kernel/perf_event_paranoid)" -eq 3
journalctl --update-catalog 2>> "$OUT/transcript.txt"
# Nobody else would set that.
echo 4321 > "$RATE"

# ---- a machine without slow memory, the configuration as shipped
systemctl stop pghotd
# Else their starts count as well, on a host that is quick.
systemctl reset-failed pghotd 2>> "$OUT/transcript.txt"
wait_for 60 slow_is_offline || give_up "the slow memory goes offline" "$(tail -n 1 "$OUT/offline.txt")"
does "start on one node" 0 systemctl start pghotd
check "it is active" "$(state)" = active
does "status" 1 pghotctl status
says "it waits for a slow tier" "no slow tier"
check "no setting was changed" "$(settings)" = "0 4321"
does "stop" 0 systemctl stop pghotd
check "it is inactive, not failed" "$(state)" = inactive

# ---- slow memory comes online while it runs
echo 'hint_faults = { manage_sysctls = true; };' >> $conf
does "start with sysctls that it may set" 0 systemctl start pghotd
for block in /sys/devices/system/node/node1/memory[0-9]*; do
	echo online_movable > "$block/state"
done
becomes "it promotes once there is a slow tier" 60 status_exits 0
check "it set what hint faults need" "$(settings)" = "2 0"
becomes "systemctl status says what it does" 60 says_promoting
does "systemctl status" 0 systemctl status --no-pager pghotd

# ---- the system bus
has_logged "it is on the system bus" "system bus: org.pghot1 is there"
does "busctl introspect" 0 busctl introspect org.pghot1 /org/pghot1 org.pghot1.Manager
says "has methods" "\.GetStatus *method"
says "has the state" '\.State *property *s *"promoting"'
does "status of another user" 0 anyone pghotctl status
says "tells him what it does" "promoting"
does "tune of another user" 77 anyone pghotctl tune promote.rate_mib_per_sec=7
says "tells him who may" "root and members of group pghot"
has_logged "it is logged" "system bus: process [0-9]* (pghotctl) of user 1000 may not call SetOption"
does "restart of the bus" 0 systemctl restart dbus
has_logged "it is there again" "system bus: org.pghot1 is there now"
does "status of another user" 0 anyone pghotctl status

# ---- the journal, and a change by hand
fast_scan
start_hotset --total-mib 16 --hot-mib 8 --fill-node 1 --thp never
does "tune" 0 pghotctl tune promote.rate_mib_per_sec=256
has_logged "a change is logged" "uid 0 (pid [0-9]*, pghotctl) changed promote.rate_mib_per_sec from 1024 to 256"

# ---- a mistake in the file
cp $conf "$OUT/good.conf"
lines=$(wc -l < $conf)
echo 'promote = { rate_mib_per_second = 5; };' >> $conf
does "reload of a mistake fails" 1 systemctl reload pghotd
has_logged "the journal names file and line" "$conf:$((lines + 1)): .*rate_mib_per_second"
check "it still runs" "$(state)" = active
does "tune" 0 pghotctl tune promote.rate_mib_per_sec
says "with what it had" "= 256"
cp "$OUT/good.conf" $conf
does "reload of the file set right" 0 systemctl reload pghotd
has_logged "what was reverted is logged" "tuned value 256 reverted to 1024"

# ---- what became of the workload
becomes "pages are promoted" 60 promoted_some
does "stop at work" 0 systemctl stop pghotd
check "it is inactive" "$(state)" = inactive
check "the settings are as found" "$(settings)" = "0 4321"
wait_for 60 journal_names_hotset
does "journalctl of a process" 0 journalctl --no-pager -o cat "PGHOT_PID=$HOTSET_PID"
says "names what was moved" "hotset"
does "journalctl -x" 0 journalctl --no-pager -x -u pghotd
says "explains messages" "Subject: Memory of a process was promoted"
says "and where to read on" "Documentation: man:pghotd(8)"
does "events" 0 pghotctl events
says "has the refusal" "refused *reload asked for by uid"
stop_hotset

# ---- killed
does "start" 0 systemctl start pghotd
becomes "the settings are set again" 60 settings_are "2 0"
main=$(property MainPID) restored=$(times_restored)
does "kill -9" 0 systemctl kill --kill-whom=main --signal=KILL pghotd
becomes "it is started again" 60 another_main
becomes "and does its job" 60 status_exits 0
check "in between the settings were put back" "$(times_restored)" -gt "$restored"
does "stop" 0 systemctl stop pghotd
check "the settings are as found" "$(settings)" = "0 4321"
check "it is inactive, not failed" "$(state)" = inactive
check "no unit has failed" -z "$(systemctl --failed --no-legend --plain)"
