#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# The real daemon: start, status, tune, reload, stop, on a recorded two-tier machine. It opens real events, so it needs
# root; there is no process whose pages it could move.
#     daemon.sh PGHOTCTL PGHOTD MACHINE [WRAPPER...]
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"

pghotd=$2
machine=$3
shift 3
root=$tmp/machine
conf=$tmp/pghotd.conf
mkdir "$tmp/run"

build_machine "$machine" "$root"
mkdir -p "$root/proc/sys/kernel" "$root/sys/devices/system/cpu"
echo 0 >"$root/proc/sys/kernel/numa_balancing"
echo 65536 >"$root/proc/sys/kernel/numa_balancing_promote_rate_limit_MBps"
echo 0 >"$root/sys/devices/system/cpu/online"
printf 'pgpromote_success 0\nnuma_pages_migrated 0\n' >"$root/proc/vmstat"

settings() {
	cat "$root/proc/sys/kernel/numa_balancing" "$root/proc/sys/kernel/numa_balancing_promote_rate_limit_MBps" | tr '\n' ' '
}

# A daemon that has come so far as to answer; the wait is bounded.
start_daemon() {
	"$@" "$pghotd" --foreground --root "$root" --run-dir "$tmp/run" -c "$conf" >"$tmp/log" 2>&1 &
	daemon=$!
	tries=0
	until "$pghotctl" status >/dev/null 2>&1 || [ $? -ne 3 ]; do
		tries=$((tries + 1))
		if [ $tries -eq 300 ] || ! kill -0 "$daemon" 2>/dev/null; then
			echo "not ok: the daemon does not start"
			cat "$tmp/log"
			return 1
		fi
		sleep 0.1
	done
}

stop_daemon() {
	kill "$daemon"
	wait "$daemon"
	stopped=$?
	daemon=
}

same() {
	if [ "$2" = "$3" ]; then ok "$1"; else echo "is \"$2\", not \"$3\"" >"$tmp/out"; : >"$tmp/err"; not_ok "$1"; fi
}

echo 'hint_faults = { manage_sysctls = true; };' >"$conf"
if ! "$pghotd" --list-sources --root "$root" -c "$conf" >"$tmp/out" 2>&1; then
	skip "the daemon" "no source can run here: $(tr '\n' ' ' <"$tmp/out")"
	finish
fi

start_daemon "$@" || exit 1
expect 0 "status" "$pghotctl" status
has out ": promoting" "it promotes"
same "it has set what hint faults need" "$(settings)" "2 0 "
expect 1 "a second daemon" "$pghotd" --foreground --root "$root" --run-dir "$tmp/run" -c "$conf"
has err "another pghotd is running" "a second daemon says why"
one_line "a second daemon"

expect 0 "mode promote" "$pghotctl" mode promote
"$pghotctl" status >"$tmp/out" 2>"$tmp/err"
if grep -q 'Limited by *mode is' "$tmp/out"; then not_ok "right after it the mode is no limit"; else ok "right after it the mode is no limit"; fi
expect 0 "mode observe" "$pghotctl" mode observe
expect 1 "status" "$pghotctl" status
has out 'Limited by *mode is "observe"' "right after it the mode is the limit"
expect 0 "tune" "$pghotctl" tune promote.rate_mib_per_sec=256
has log "uid $(id -u) .* changed promote.rate_mib_per_sec from 1024 to 256" "the change is logged with who, from, to"
expect 1 "tune of what needs a restart" "$pghotctl" tune threads.ring_kib=64
has err "restart" "it says that it needs one"
expect 1 "tune out of range" "$pghotctl" tune promote.burst_ms=0
has err "1 to 10000" "it says the range"
expect 1 "tiers of a node that isn't there" "$pghotctl" tune 'tiers=( "0", "7" )'
has err "7" "it names the node"

printf 'hint_faults = { manage_sysctls = true; };\npromote = { rate_mib_per_sec = 512; scan_sleep = 5; };\n' >"$conf"
expect 1 "reload of a wrong file" "$pghotctl" reload
has err "$conf:2: .*scan_sleep" "it names file, line and key"
expect 0 "and the old one stays" "$pghotctl" tune promote.rate_mib_per_sec
has out "= 256" "with what was tuned"
printf 'hint_faults = { manage_sysctls = true; };\npromote = { rate_mib_per_sec = 512; };\nthreads = { ring_kib = 64; };\n' >"$conf"
expect 0 "reload" "$pghotctl" reload
has out "tuned value 256 reverted to 512" "it tells what is reverted"
has out "threads.ring_kib stays 512 until a restart" "and what waits for a restart"
expect 0 "tune --save" "$pghotctl" tune promote.rate_mib_per_sec=128 --save
has out "^saved in $conf$" "it says where"
has log "uid $(id -u) (pid .*) saved promote.rate_mib_per_sec in $conf: it was 512, and is 128 from now on" "and so does the log"
expect 0 "reload of it" "$pghotctl" reload
expect 0 "it stays" "$pghotctl" tune promote.rate_mib_per_sec
has out "= 128" "saved"
echo 'mode = "maybe";' >"$conf"
kill -HUP "$daemon"
tries=0
until grep -q 'SIGHUP.*refused' "$tmp/log" || [ $tries -eq 100 ]; do
	tries=$((tries + 1))
	sleep 0.1
done
has log "SIGHUP from pid .* is refused, the running configuration stays: .*maybe" "a refused SIGHUP is told"
expect 0 "mode" "$pghotctl" mode observe
echo 7 >"$root/proc/sys/kernel/numa_balancing_promote_rate_limit_MBps"
stop_daemon
same "it ends with 0" "$stopped" 0
same "what was set is put back, what someone else has set since is left" "$(settings)" "0 7 "
cp "$tmp/log" "$tmp/out"
same "no error but the refusals was logged" "$(grep -ci 'cannot\|error' "$tmp/log")" 0

echo 'hint_faults = { manage_sysctls = true; };' >"$conf"
# Told how long, it ends by itself; it ticks each second, and so it sees what the kernel promotes.
start_daemon "$@" || exit 1
printf 'pgpromote_success 100\nnuma_pages_migrated 0\n' >"$root/proc/vmstat"
tries=0
until "$pghotctl" status --json >"$tmp/out" 2>"$tmp/err"; [ $? -eq 2 ] || [ $tries -eq 50 ]; do
	tries=$((tries + 1))
	sleep 0.1
done
is_json "what the kernel promotes is seen" 'd["state"] == "degraded" and d["kernel"] == {"promotes": True, "promoted_pages": 100}'
stop_daemon
expect 0 "--for" timeout 30 "$pghotd" --foreground --root "$root" --run-dir "$tmp/run" -c "$conf" --for 2
if grep -q 'stopping: asked' "$tmp/err"; then not_ok "--for ends it in time"; else ok "--for ends it in time"; fi

# Paused, it holds no event and leaves the settings as they were; it goes on by itself, or when told.
events() {
	find "/proc/$daemon/fd" -lname '*perf_event*' 2>/dev/null | wc -l
}
state_is() { # STATE: within a bounded time
	tries=0
	until "$pghotctl" status --json 2>/dev/null | grep -q "\"state\": \"$1\"" || [ $tries -eq 300 ]; do
		tries=$((tries + 1))
		sleep 0.1
	done
	"$pghotctl" status >"$tmp/out" 2>"$tmp/err"
	has out ": $1[,;]" "the state becomes $1"
}
echo 'hint_faults = { manage_sysctls = true; };' >"$conf"
start_daemon "$@" || exit 1
before=$(settings)
opened=$(events)
if [ "$opened" -gt 0 ]; then ok "events are open"; else not_ok "events are open"; fi
expect 0 "pause" "$pghotctl" pause
same "paused, no event is open" "$(events)" 0
same "and the settings are back" "$(settings)" "0 7 "
has log "uid $(id -u) (pid .*) paused it: its events are closed" "who did it is logged"
has log "pghotd: paused$" "and that it is so, once"
expect 1 "status of a pause" "$pghotctl" status
has out "Why *paused by uid $(id -u) (.*) .* ago, until pghotctl resume" "status says who, and for how long"
has out "^Sources *none in use" "status shows that no source is open"
expect 0 "tune while paused" "$pghotctl" tune promote.rate_mib_per_sec=256
expect 0 "tune of a source while paused" "$pghotctl" tune hint_faults.manage_sysctls=false
expect 0 "reload while paused" "$pghotctl" reload
same "neither opens an event" "$(events)" 0
state_is paused
expect 0 "resume" "$pghotctl" resume
same "resumed, as many events are open as before" "$(events)" "$opened"
same "with the settings that they need" "$(settings)" "$before"
expect 0 "status goes on" "$pghotctl" status
expect 0 "pause for a second" "$pghotctl" pause --for=1s
state_is promoting
has log "the time is over for which uid $(id -u) .* paused it" "the end is logged"
expect 0 "pause" "$pghotctl" pause
echo 0 >"$root/proc/sys/kernel/numa_balancing"
: >"$conf"
expect 0 "reload to a file without what the source needs" "$pghotctl" reload
expect 0 "resume without a source" "$pghotctl" resume
has out "^resumed, but no source works: hint_faults: .*trying again each minute" "says why"
expect 2 "status is that of a failed source" "$pghotctl" status
expect 0 "pause again" "$pghotctl" pause --for=1h
stop_daemon
same "stopped while paused, it ends with 0" "$stopped" 0
echo 'hint_faults = { manage_sysctls = true; };' >"$conf"

# What stands on the command line wins over the file, and a relative name is the daemon's.
env -C "$tmp" "$(realpath "$pghotd")" --foreground --root "$root" --run-dir "$tmp/run" -c pghotd.conf --set promote.burst_ms=60 >"$tmp/log" 2>&1 &
daemon=$!
state_is promoting
expect 0 "tune --save of what the command line sets" "$pghotctl" tune promote.burst_ms=61 --save
has out "^saved in $conf$" "saves it where the daemon reads"
has err "started with another value on its command line, which wins" "and says that it doesn't hold"
stop_daemon
echo 'hint_faults = { manage_sysctls = true; };' >"$conf"

# The service manager is told when it is ready, that its threads move on, and when it stops.
python3 "$(dirname "$0")/notify.py" "$tmp/notify" READY=1 WATCHDOG=1 WATCHDOG=1 WATCHDOG=1 RELOADING=1 READY=1 STOPPING=1 \
	>"$tmp/heard" 2>"$tmp/manager" &
manager=$!
if poll 600 grep -q ready "$tmp/heard"; then ok "a service manager listens"; else not_ok "a service manager listens"; fi
NOTIFY_SOCKET=$tmp/notify
WATCHDOG_USEC=3000000
export NOTIFY_SOCKET WATCHDOG_USEC
start_daemon "$@" || exit 1
unset NOTIFY_SOCKET WATCHDOG_USEC
# shellcheck disable=SC2317 # poll calls it
fed() {
	[ "$(grep -c WATCHDOG=1 "$tmp/heard")" -eq 3 ]
}
if poll 900 fed; then ok "it feeds the watchdog again and again"; else not_ok "it feeds the watchdog again and again"; fi
expect 0 "reload of the same" "$pghotctl" reload
stop_daemon
wait $manager
manager_status=$?
cp "$tmp/manager" "$tmp/out"
same "it tells the service manager what it does" $manager_status 0

# What the machine lacks must not keep anyone from saying "observe".
echo 'tiers = ( "0", "1", "7" ); hint_faults = { manage_sysctls = true; };' >"$conf"
for wrong in --mode=fast --set=mode=fast --set=promote.burst_ms=0 --set=nosuch=1 --set=sources=nosuch; do
	expect 64 "$wrong" "$pghotd" "$wrong" --foreground --root "$root" --run-dir "$tmp/run2" -c "$conf"
	one_line "$wrong"
	expect 64 "$wrong --check-config" "$pghotd" "$wrong" --check-config --root "$root" -c "$conf"
done
expect 0 "--check-config of what isn't here" "$pghotd" --check-config --root "$root" --set sampling.cpus=0,4095 \
	--set target_nid=63 --set control.group=no-such-group -c "$conf"
has out "^note: sampling.cpus: this machine has no CPU 4095$" "a CPU that isn't here"
has out "^note: target_nid: this machine has no node 63$" "a node that isn't here"
has out "^note: control.group: there is no group \"no-such-group\"" "a group that isn't here"
expect 0 "--check-config of CPUs that are all away" "$pghotd" --check-config --root "$root" --set sampling.cpus=4094 -c "$conf"
has out "^note: sampling.cpus: \"4094\" leaves no CPU that is online here" "no CPU is left"
expect 0 "--restore of nothing" "$pghotd" --restore --root "$root" --run-dir "$tmp/run2"
has err "nothing to put back" "it says so"

if setpriv --reuid=65534 --regid=65534 --clear-groups test -x "$pghotd" 2>/dev/null; then
	chmod 600 "$conf"
	expect 78 "--check-config by who may not read it" setpriv --reuid=65534 --regid=65534 --clear-groups \
		"$pghotd" --check-config -c "$conf"
	has err "user id 65534 may not read it" "it says who"
	chmod 644 "$conf"
else
	skip "--check-config by who may not read it" "no other user can be had, or he can't get to $pghotd"
fi

expect 0 "--check-config of a node that isn't there yet" "$pghotd" --check-config --root "$root" -c "$conf"
has out "7" "it names the node"
start_daemon "$@" || exit 1
expect 0 "mode observe with it" "$pghotctl" mode observe
expect 0 "tune with it" "$pghotctl" tune promote.rate_mib_per_sec=256
expect 0 "reload with it" "$pghotctl" reload
expect 0 "--restore while a daemon runs" "$pghotd" --restore --root "$root" --run-dir "$tmp/run"
has err "running" "it says that one runs"
same "and leaves it what it needs" "$(settings)" "2 0 "
stop_daemon
same "the settings are back" "$(settings)" "0 7 "

# A file that is fine, with what can't change before a restart, need not be.
echo 'records = "compact"; target_nid = 0; promote = { freq_window_ms = 3000; freq_threshold = 1; }; hint_faults = { manage_sysctls = true; };' >"$conf"
start_daemon "$@" || exit 1
echo 'promote = { freq_window_ms = 16383; freq_threshold = 7; }; hint_faults = { manage_sysctls = true; };' >"$conf"
expect 1 "reload to what compact records can't hold" "$pghotctl" reload
has err "needs a restart, since the running records" "it says that it needs a restart"
expect 0 "and everything else can still be changed" "$pghotctl" mode observe
stop_daemon

# A source that can't do its job is shown from the first moment.
echo 'sources = [ "hint_faults" ];' >"$conf"
echo 1 >"$root/proc/sys/kernel/numa_balancing"
start_daemon "$@" || exit 1
expect 2 "status right after the start, where the kernel promotes" "$pghotctl" status
stop_daemon
echo 0 >"$root/proc/sys/kernel/numa_balancing"
echo 'hint_faults = { manage_sysctls = true; };' >"$conf"

# Addresses are for root and for who may trace the process: member of the group is not enough.
if ! getent group adm >/dev/null || ! setpriv --reuid=65534 --regid=65534 --clear-groups test -x "$pghotctl"; then
	skip "a member of the group" "there is no group adm, or another user can't get to $pghotctl"
else
	member() {
		setpriv --reuid=65534 --regid=65534 --groups "$(getent group adm | cut -d: -f3)" "$pghotctl" "$@" \
			>"$tmp/out" 2>"$tmp/err"
		status=$?
	}
	echo 'control = { group = "adm"; }; hint_faults = { manage_sysctls = true; };' >"$conf"
	mkdir -p "$root/proc/812"
	printf 'Name:\tx\nUid:\t0\t0\t0\t0\nGid:\t0\t0\t0\t0\n' >"$root/proc/812/status"
	start_daemon "$@" || exit 1
	member status
	same "a member of the group may look" $status 0
	member heat
	same "at the map, too" $status 0
	member heat --pid 812
	same "but not at addresses of another's process" $status 1
	has err "addresses of pid 812 are for root and for who may trace it, which uid 65534 may not" "and is told so"
	member explain 812:7f0000000000
	same "by explain neither" $status 1
	has err "addresses of pid 812 are for root" "and is told so"
	chown 65534 "$root/proc/812"
	printf 'Name:\tx\nUid:\t65534\t65534\t65534\t65534\nGid:\t65534\t65534\t65534\t65534\n' >"$root/proc/812/status"
	member heat --pid 812
	same "those of his own he may see" $status 0
	expect 0 "and root all" "$pghotctl" heat --pid 1
	expect 1 "nothing is known of a process without samples" "$pghotctl" explain 812
	has err "nothing is known of pid 812" "which is said"
	expect 1 "heat of a node that isn't there" "$pghotctl" heat --node 7
	has err "this machine has no node 7" "which is said"
	stop_daemon
	echo 'hint_faults = { manage_sysctls = true; };' >"$conf"
fi

# A signal that means nothing to it does nothing.
start_daemon || exit 1
kill -USR1 "$daemon"
kill -USR2 "$daemon"
expect 0 "status after SIGUSR1 and SIGUSR2" "$pghotctl" status
stop_daemon
same "and it stops as always" "$stopped" 0
same "with its settings put back" "$(settings)" "0 7 "

# Who tidies up too much under it is told what to do by hand.
start_daemon || exit 1
rm "$tmp/run/saved"
stop_daemon
has log "has removed $tmp/run/saved; run: sysctl -w kernel.numa_balancing=0 kernel.numa_balancing_promote_rate_limit_MBps=7" \
	"what can't be put back is said"
echo 0 >"$root/proc/sys/kernel/numa_balancing"
echo 7 >"$root/proc/sys/kernel/numa_balancing_promote_rate_limit_MBps"

# Killed: the next start puts back what it found, and so does --restore.
start_daemon || exit 1
kill -KILL "$daemon"
wait "$daemon" 2>/dev/null
daemon=
same "a killed one leaves its settings" "$(settings)" "2 0 "
expect 0 "--restore" "$pghotd" --restore --root "$root" --run-dir "$tmp/run"
same "--restore puts them back" "$(settings)" "0 7 "
finish
