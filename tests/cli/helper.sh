#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# The real daemon as a user beside its helper, on a recorded two-tier machine. It opens real events, so it needs root.
#     helper.sh PGHOTCTL PGHOTD MACHINE
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"

pghotd=$2
machine=$3
root=$tmp/machine
conf=$tmp/pghotd.conf
saved=$tmp/run-helper/saved

build_machine "$machine" "$root"
mkdir -p "$root/proc/sys/kernel" "$root/sys/devices/system/cpu"
echo 0 >"$root/proc/sys/kernel/numa_balancing"
echo 65536 >"$root/proc/sys/kernel/numa_balancing_promote_rate_limit_MBps"
echo 0 >"$root/sys/devices/system/cpu/online"
printf 'pgpromote_success 0\nnuma_pages_migrated 0\n' >"$root/proc/vmstat"
echo 'hint_faults = { manage_sysctls = true; };' >"$conf"

settings() {
	cat "$root/proc/sys/kernel/numa_balancing" "$root/proc/sys/kernel/numa_balancing_promote_rate_limit_MBps" | tr '\n' ' '
}

run_pghotd() {
	"$pghotd" --foreground --root "$root" --run-dir "$tmp/run" -c "$conf" --user nobody >>"$tmp/log" 2>&1 &
	daemon=$!
	wait_until "the daemon answers" answers
}

# shellcheck disable=SC2317 # wait_until calls it
answers() {
	"$pghotctl" status >"$tmp/status" 2>&1 || [ $? -ne 3 ]
}

# wait_until NAME COMMAND...: bounded, by what is so and not by time.
wait_until() {
	name=$1
	shift
	if poll 300 "$@"; then
		ok "$name"
	else
		cp "$tmp/log" "$tmp/out"
		: >"$tmp/err"
		not_ok "$name"
		return 1
	fi
}

same() {
	if [ "$2" = "$3" ]; then ok "$1"; else echo "is \"$2\", not \"$3\"" >"$tmp/out"; cp "$tmp/log" "$tmp/err"; not_ok "$1"; fi
}

of_main() {
	sed -n "s/^$1:[[:space:]]*//p" "/proc/$daemon/status" | tr '\t' ' '
}

# child_of PID NAME
child_of() {
	for status in /proc/[0-9]*/status; do
		if grep -q "^Name:.$2$" "$status" && grep -q "^PPid:.$1$" "$status"; then
			echo "$status" | cut -d / -f 3
		fi
	done 2>/dev/null
}

keeper_pid() {
	child_of "$daemon" pghotd-keeper
}

helper_pid() {
	child_of "$(keeper_pid)" pghotd-helper
}

# shellcheck disable=SC2317 # wait_until calls it
another_helper() {
	now=$(helper_pid)
	[ -n "$now" ] && [ "$now" != "$then" ]
}

# Ends each helper that is started, until none is.
# shellcheck disable=SC2317 # wait_until calls it
given_up() {
	now=$(helper_pid)
	[ -z "$now" ] || kill -KILL "$now" 2>/dev/null
	grep -q 'is not started again' "$tmp/log"
}

# shellcheck disable=SC2317 # wait_until calls it
status_names_no_helper() {
	"$pghotctl" status >"$tmp/status" 2>&1
	! grep -q 'helper process' "$tmp/status"
}

# shellcheck disable=SC2317 # wait_until calls it
settings_are() {
	[ "$(settings)" = "$1" ]
}

# shellcheck disable=SC2317 # wait_until calls it
one_helper() {
	[ "$(cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\0' ' ' | grep -o -e "--run-dir $tmp/run " | wc -l)" -eq 3 ]
}

# shellcheck disable=SC2317 # wait_until calls it
status_names_helper() {
	"$pghotctl" status >"$tmp/status" 2>&1
	[ $? -eq 2 ] && grep -q 'helper process' "$tmp/status"
}

end_daemon() {
	kill "$1" "$daemon"
	wait "$daemon" 2>/dev/null
	status=$?
	daemon=
}

: >"$tmp/log"
expect 64 "--user goes with a start" "$pghotd" --user nobody --check-config -c "$conf"
if [ "$(id -u)" -ne 0 ]; then
	expect 77 "--user needs root" "$pghotd" --user nobody --root "$root" --run-dir "$tmp/run" -c "$conf"
	expect 77 "--helper needs root" "$pghotd" --helper --run-dir "$tmp/run"
	skip "the helper" "it is forked off by root"
	finish
fi
expect 64 "no such user" "$pghotd" --user no-such-user --foreground --root "$root" --run-dir "$tmp/run" -c "$conf"
expect 64 "root is no other user" "$pghotd" --user root --foreground --root "$root" --run-dir "$tmp/run" -c "$conf"
mkdir -m 1777 "$tmp/many"
touch "$tmp/many/others"
expect 64 "a folder that others use, too" timeout 60 "$pghotd" --user nobody --foreground --root "$root" --run-dir "$tmp/many" -c "$conf" --for 1
has err "wants one that is pghotd's alone" "it says what it wants"
same "the folder stays as it is" "$(stat -c '%u %a' "$tmp/many")" "0 1777"
if ! id nobody >/dev/null 2>&1 ||
	! "$pghotd" --list-sources --root "$root" -c "$conf" >"$tmp/out" 2>&1; then
	skip "the helper" "no source can run here: $(tr '\n' ' ' <"$tmp/out")"
	finish
fi

run_pghotd || finish
same "the main process is of that user" "$(of_main Uid)" "$(id -u nobody) $(id -u nobody) $(id -u nobody) $(id -u nobody)"
same "it keeps three capabilities" "$(of_main CapEff)" 0000000000884000
same "and gets no other" "$(of_main NoNewPrivs)" 1
same "the helper sets what hint faults need" "$(settings)" "2 0 "
same "what to put back is root's" "$(stat -c '%u %a' "$saved")" "0 600"
expect 0 "--restore leaves the settings of one that runs" "$pghotd" --restore --root "$root" --run-dir "$tmp/run"
same "and they stay" "$(settings)" "2 0 "
expect 1 "a second daemon" "$pghotd" --user nobody --foreground --root "$root" --run-dir "$tmp/run" -c "$conf"
has err "another pghotd is running" "a second daemon says why"
wait_until "its helper ends with it" one_helper
same "and leaves the settings of the first" "$(settings)" "2 0 "
then=$(helper_pid)
kill -KILL "$then"
wait_until "a helper that is killed is started again" another_helper
wait_until "and used" status_names_no_helper
same "it is told once" "$(grep -c 'ended by signal 9; another one is started' "$tmp/log")" 1
wait_until "one that never lives for long is given up" given_up
same "after five" "$(grep -c 'by signal 9; another one is started' "$tmp/log")" 5
wait_until "status says that the helper is gone" status_names_helper
has status "restart pghotd" "and what to do"
end_daemon -TERM
same "it ends with status 0 all the same" "$status" 0
wait_until "what kept the helper puts back the settings" settings_are "0 65536 "

run_pghotd || finish
then=$(helper_pid)
kill -KILL "$(keeper_pid)"
kill -KILL "$then"
wait_until "status says that a helper is gone which nobody keeps" status_names_helper
end_daemon -TERM
same "it ends with status 0 all the same" "$status" 0
same "with nobody to put back the settings" "$(settings)" "2 0 "
expect 0 "--restore" "$pghotd" --restore --root "$root" --run-dir "$tmp/run"
same "--restore puts them back" "$(settings)" "0 65536 "

run_pghotd || finish
same "the next one sets them" "$(settings)" "2 0 "
end_daemon -KILL
wait_until "a helper outlives a main process that is killed, to put them back" settings_are "0 65536 "
run_pghotd || finish
end_daemon -TERM
same "a clean stop" "$status" 0
same "puts them back" "$(settings)" "0 65536 "
if [ -e "$saved" ]; then not_ok "nothing is left to put back"; else ok "nothing is left to put back"; fi
finish
