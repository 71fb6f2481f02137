#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# The real daemon on a system bus of the test's own, with the policy file as it is installed. The machine is a recorded
# one. It needs root, to be other users too.
#     system_bus.sh PGHOTCTL PGHOTD MACHINE POLICY
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"

pghotd=$2
machine=$3
policy=$(realpath "$4")
root=$tmp/machine
conf=$tmp/pghotd.conf
bus=
mkdir "$tmp/run"
DBUS_SYSTEM_BUS_ADDRESS=unix:path=$tmp/system_bus
export DBUS_SYSTEM_BUS_ADDRESS

why=
if [ "$(id -u)" -ne 0 ]; then
	why="needs root to be other users"
elif ! command -v dbus-daemon >/dev/null || ! command -v busctl >/dev/null; then
	why="there is no dbus-daemon or busctl here (packages dbus-daemon, systemd)"
elif ! getent group adm >/dev/null; then
	why="there is no group adm"
fi
if [ -n "$why" ]; then
	skip "system bus" "$why"
	finish
fi

# As Debian has it, but for where it listens; what it rejects it logs.
cat >"$tmp/bus.conf" <<-END
	<busconfig><type>system</type><listen>$DBUS_SYSTEM_BUS_ADDRESS</listen><auth>EXTERNAL</auth>
	<policy context="default">
	<allow user="*"/><deny own="*"/><deny send_type="method_call"/><allow send_type="signal"/>
	<allow send_requested_reply="true" send_type="method_return"/><allow send_requested_reply="true" send_type="error"/>
	<allow receive_type="method_call"/><allow receive_type="method_return"/>
	<allow receive_type="error"/><allow receive_type="signal"/>
	<allow send_destination="org.freedesktop.DBus"/>
	</policy>
	<includedir>$tmp/system.d</includedir></busconfig>
END
mkdir "$tmp/system.d"

start_bus() {
	mkfifo "$tmp/listens"
	dbus-daemon --nofork --config-file="$tmp/bus.conf" --print-address=3 3>"$tmp/listens" 2>>"$tmp/bus.log" &
	bus=$!
	others="$others $bus"
	read -r address <"$tmp/listens"
	rm "$tmp/listens"
	case $address in unix:*) ;; *)
		echo "not ok: dbus-daemon does not start"
		cat "$tmp/bus.log"
		exit 1
		;;
	esac
}

stop_bus() {
	kill "$bus"
	wait "$bus"
	rm -f "$tmp/system_bus"
}

# shellcheck disable=SC2317 # poll calls it
has_lines() {
	[ "$(grep -c -e "$2" "$tmp/log")" -ge "$1" ]
}

# logged COUNT PATTERN NAME: so many lines of the daemon's log, within half a minute.
logged() {
	poll 300 has_lines "$1" "$2"
	cp "$tmp/log" "$tmp/out"
	: >"$tmp/err"
	if [ "$(grep -c -e "$2" "$tmp/log")" -eq "$1" ]; then ok "$3"; else not_ok "$3: not $1 lines with \"$2\""; fi
}

# shellcheck disable=SC2317 # these are called by way of expect
as() {
	groups=$1
	shift
	setpriv --reuid=65534 --regid=65534 --groups "$groups" "$@"
}

# shellcheck disable=SC2317
anyone() {
	as 65534 "$@"
}

# shellcheck disable=SC2317
member() {
	as "65534,$(getent group adm | cut -d: -f3)" "$@"
}

# shellcheck disable=SC2317
call() {
	busctl --system call org.pghot1 /org/pghot1 org.pghot1.Manager "$@"
}

build_machine "$machine" "$root"
mkdir -p "$root/proc/sys/kernel" "$root/sys/devices/system/cpu" "$root/proc/812" "$root/proc/813"
echo 2 >"$root/proc/sys/kernel/numa_balancing"
echo 0 >"$root/proc/sys/kernel/numa_balancing_promote_rate_limit_MBps"
echo 0 >"$root/sys/devices/system/cpu/online"
printf 'pgpromote_success 0\nnuma_pages_migrated 0\n' >"$root/proc/vmstat"
printf 'Name:\tx\nUid:\t0\t0\t0\t0\nGid:\t0\t0\t0\t0\n' >"$root/proc/812/status"
printf 'Name:\tx\nUid:\t65534\t65534\t65534\t65534\nGid:\t65534\t65534\t65534\t65534\n' >"$root/proc/813/status"
chown 65534 "$root/proc/813"
echo 'control = { group = "adm"; };' >"$conf"
cp "$pghotctl" "$tmp/pghotctl"

if ! anyone "$tmp/pghotctl" --help >/dev/null 2>&1; then
	skip "system bus" "another user can't run programs below $tmp"
	finish
fi
if ! "$pghotd" --list-sources --root "$root" -c "$conf" >"$tmp/out" 2>&1; then
	skip "system bus" "no source can run here: $(tr '\n' ' ' <"$tmp/out")"
	finish
fi

"$pghotd" --foreground --root "$root" --run-dir "$tmp/run" -c "$conf" >"$tmp/log" 2>&1 &
daemon=$!
logged 1 "running in mode" "it runs without a bus"
logged 1 "system bus: there is none (No such file or directory)" "and says that there is none"
expect 77 "status of anyone" anyone "$tmp/pghotctl" status
has err "root may, and members of group adm" "he is told who may use the socket"

start_bus
logged 1 "system bus: it doesn't let pghotd have the name .*org.pghot1.conf belongs into" "a policy file that is missing is told"
cp "$policy" "$tmp/system.d/org.pghot1.conf"
kill -HUP "$bus"
logged 1 "system bus: org.pghot1 is there now" "with it, it has the name"

expect 0 "busctl introspect" busctl --system introspect org.pghot1 /org/pghot1 org.pghot1.Manager
for line in '\.GetStatus *method *- *s' '\.SetOption *method *ss' '\.State *property *s *"promoting" *emits-change' \
	'\.Mode *property *s *"promote" *emits-change' '\.Version *property *s .*const'; do
	has out "$line" "it has ${line%% *}"
done
expect 0 "GetStatus of anyone" anyone busctl --system call org.pghot1 /org/pghot1 org.pghot1.Manager GetStatus
expect 0 "status of anyone" anyone "$tmp/pghotctl" status
has out ": promoting" "it promotes"
expect 0 "tune lists for anyone" anyone "$tmp/pghotctl" tune promote.rate_mib_per_sec
expect 77 "tune of anyone" anyone "$tmp/pghotctl" tune promote.rate_mib_per_sec=7
has err "changes are for root and members of group adm" "he is told who may"
one_line "tune of anyone"
expect 77 "mode of anyone" anyone "$tmp/pghotctl" mode observe
expect 77 "reload of anyone" anyone "$tmp/pghotctl" reload
has log "system bus: process [0-9]* (pghotctl) of user 65534 may not call Reload" "it is logged"
expect 77 "addresses of another's process" anyone "$tmp/pghotctl" heat --pid 812
has err "addresses of pid 812 are for root and for who may trace it, which uid 65534 may not" "are not for anyone"
expect 0 "addresses of his own" anyone "$tmp/pghotctl" heat --pid 813

# Who listens is told.
: >"$tmp/signals"
busctl --system monitor --match="type='signal',interface='org.freedesktop.DBus.Properties'" >"$tmp/signals" 2>&1 &
others="$others $!"
poll 100 grep -q Monitoring "$tmp/signals"
expect 0 "SetOption of a member" member busctl --system call org.pghot1 /org/pghot1 org.pghot1.Manager SetOption ss mode observe
has log "uid 65534 (pid [0-9]*, busctl) changed mode from promote to observe" "it is logged with who"
expect 0 "the property follows" busctl --system get-property org.pghot1 /org/pghot1 org.pghot1.Manager Mode
has out '"observe"' "to what it is"
poll 100 grep -q '"State"' "$tmp/signals"
cp "$tmp/signals" "$tmp/out"
has out '"Mode"' "a change of mode is told"
has out '"State"' "and the new state"

expect 1 "an argument that is too long" call SetOption ss mode "$(head -c 100000 /dev/zero | tr '\0' x)"
has err "the request is too long" "is refused"
expect 1 "a wrong option" call SetOption ss nosuch 1
has err "nosuch" "it is named"
expect 1 "an argument that is missing" call SetOption s mode
expect 1 "a method that isn't there" call Nonsense

expect 0 "the file is not changed, so reload takes all back" "$pghotctl" reload
expect 0 "tune control.public_status" "$pghotctl" tune control.public_status=false
expect 77 "status of anyone" anyone "$tmp/pghotctl" status
has err "reading is not for everyone" "he is told"
expect 0 "of a member" member "$tmp/pghotctl" status
expect 0 "the property" anyone busctl --system get-property org.pghot1 /org/pghot1 org.pghot1.Manager State
has out '"hidden"' "is hidden"
expect 0 "and back" "$pghotctl" tune control.public_status=true
expect 0 "status of anyone" anyone "$tmp/pghotctl" status

stop_bus
logged 1 "system bus: it went away" "a bus that goes is told"
expect 0 "root needs none" "$pghotctl" status
start_bus
logged 2 "system bus: org.pghot1 is there now" "and that it is back"

# Two of them, as a mistake may have it.
: >"$tmp/log2"
"$pghotd" --foreground --root "$root" --run-dir "$tmp/run2" -c "$conf" >"$tmp/log2" 2>&1 &
others="$others $!"
poll 300 grep -q "system bus: another program has the name" "$tmp/log2"
cp "$tmp/log2" "$tmp/out"
has out "system bus: another program has the name org.pghot1" "a second one says that the name is taken"
kill "$daemon"
wait "$daemon"
status=$?
daemon=
if [ $status -eq 0 ]; then ok "the first one ends with 0"; else not_ok "the first one ends with $status"; fi
poll 300 grep -q "system bus: org.pghot1 is there now" "$tmp/log2"
cp "$tmp/log2" "$tmp/out"
has out "system bus: org.pghot1 is there now" "then the second one has it"
finish
