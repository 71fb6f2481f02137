#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# What doctor says of machines that are made up: doctor.sh PGHOTCTL PGHOTD MACHINES. As any user, without a daemon.
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"

pghotctl=$(realpath "$1")
pghotd=$2
machines=$3
root=$tmp/machine

put() { # PATH TEXT
	mkdir -p "$root/$(dirname "$1")"
	printf '%s\n' "$2" >"$root/$1"
}

# A two-tier server on which all is well.
well() {
	rm -rf "$root"
	build_machine "$machines/$1" "$root"
	put proc/sys/kernel/osrelease 6.12.9-amd64
	put proc/cmdline "BOOT_IMAGE=/vmlinuz root=/dev/sda1 quiet"
	put proc/self/status "Name:	pghotctl
CapEff:	000001ffffffffff
CapBnd:	000001ffffffffff
Seccomp:	0"
	put proc/self/uid_map "         0          0 4294967295"
	put proc/self/limits "Max open files            1024                 524288               files
Max locked memory         8388608              unlimited            bytes"
	mkdir -p "$root/proc/self/ns"
	ln -sf 'pid:[4026531836]' "$root/proc/self/ns/pid"
	put proc/sys/kernel/perf_event_paranoid 3
	put proc/sys/kernel/perf_event_max_sample_rate 100000
	put proc/sys/kernel/perf_event_mlock_kb 516
	put proc/sys/kernel/numa_balancing 2
	put proc/sys/kernel/numa_balancing_promote_rate_limit_MBps 0
	put sys/devices/system/cpu/online 0-1
	put proc/1/comm systemd
}

doctor() { # STATUS NAME
	# By a short name, so that lines break where they did.
	expect "$1" "doctor, $2" env -C "$tmp" "$pghotctl" doctor --root machine
	narrow "doctor, $2"
	empty err "doctor, $2, complains of nothing"
}

well lab-6.12-hmat
echo >"$tmp/pghotd.conf"
if ! "$pghotd" --list-sources --root "$root" -c "$tmp/pghotd.conf" 2>/dev/null | grep -q '^hint_faults *can work'; then
	skip "doctor" "no perf event can be opened here, which doctor would say as well"
	finish
fi

doctor 0 "well"
golden doctor-well
if [ "$(wc -l <"$tmp/out")" -le 23 ]; then ok "all that is well is on one screen"; else not_ok "one screen"; fi
expect 0 "doctor --json" "$pghotctl" doctor --root "$root" --json
is_json "doctor --json" 'all(f["verdict"] in ("ok", "note") for f in d["findings"]) and {"kernel", "tiers", "hint_faults", "DAMON"} <= {f["name"] for f in d["findings"]}'
expect 0 "no daemon is asked" "$pghotctl" doctor --root "$root" --socket /nonexistent/bus

# Everything that can be wrong, each with what to do.
well lab-6.12-hmat
put proc/sys/kernel/osrelease 5.10.0
put proc/cmdline "quiet pghotd=off"
put etc/pghotd.conf 'mdoe = "observe";'
ln -sf 'pid:[4026532000]' "$root/proc/self/ns/pid"
put proc/self/uid_map "         0       1000          1"
put proc/self/status "Name:	pghotctl
CapEff:	0000000000000000
CapBnd:	0000000000080000
Seccomp:	2"
put proc/self/limits "Max open files            1024                 100                  files
Max locked memory         8388608              65536                bytes"
put proc/sys/kernel/perf_event_max_sample_rate 25000
put proc/sys/kernel/numa_balancing 1
rm "$root/proc/sys/kernel/numa_balancing_promote_rate_limit_MBps"
put sys/kernel/mm/damon/admin/kdamonds/0/state on
put sys/kernel/mm/damon/admin/kdamonds/0/contexts/0/schemes/0/action migrate_hot
put sys/kernel/mm/damon/admin/kdamonds/0/contexts/0/schemes/1/action pageout
put proc/sys/vm/pghot_enabled_sources 2
put proc/812/comm numad
put proc/813/comm memtierd
doctor 1 "all wrong"
golden doctor-wrong
expect 1 "doctor --json, all wrong" "$pghotctl" doctor --root "$root" --json
is_json "each line passes or says what to do" 'all(f["todo"] or f["verdict"] in ("ok", "note") or f["name"] in ("ibs", "hint_faults") for f in d["findings"])'

# One thing wrong at a time; its line, and no other, changes.
one() { # NAME PATTERN
	doctor 1 "$1"
	has out "$2" "$1 is told"
	if [ "$(grep -c '^warn\|^bad' "$tmp/out")" -eq 1 ]; then ok "$1 alone"; else not_ok "$1 alone"; fi
}
well cxl-all-in-one-tier
one "tiers that firmware got wrong" "^warn tiers "
has out '  -> .*' "and the line to paste"
well lab-6.12-hmat
put proc/sys/kernel/numa_balancing_promote_rate_limit_MBps 65536
one "the kernel promotes" "^warn balancing .*is 2: the kernel promotes, too"
has out "sysctl -w kernel.numa_balancing_promote_rate_limit_MBps=0" "and how to stop it"
well lab-6.12-hmat
put sys/kernel/mm/damon/admin/kdamonds/0/state on
put sys/kernel/mm/damon/admin/kdamonds/0/contexts/0/schemes/0/action migrate_cold
one "DAMON" "^warn DAMON .*1 of its schemes moves pages between nodes (migrate_cold)"
put sys/kernel/mm/damon/admin/kdamonds/0/state off
doctor 0 "DAMON that is off"
has out "^ok   DAMON " "a kdamond that is off does nothing"
put sys/module/damon_reclaim/parameters/enabled Y
doctor 0 "DAMON that only reclaims"
has out "^note DAMON .*none moves pages" "what moves nothing is a note"
well lab-6.12-hmat
put proc/77/comm numad
one "numad" "^warn others .*numad (pid 77)"
well lab-6.12-hmat
put proc/sys/vm/pghot_enabled_sources 2
one "the kernel's pghot" "^warn pghot "
has out "sysctl -w vm.pghot_enabled_sources=0" "and how to stop it"
well lab-6.12-hmat
put proc/sys/kernel/osrelease 6.15.0
put sys/bus/event_source/devices/ibs_op/type 11
one "a kernel that hides addresses" "^warn kernel .*6.15.0"
has out "kernel.perf_event_paranoid=1" "and how to get them"
well lab-6.12-hmat
ln -sf 'pid:[4026532000]' "$root/proc/self/ns/pid"
one "a pid namespace" "^bad  pids "
has out "can't do its job here" "the last line says what it comes to"
well one-node
doctor 0 "one node"
has out "^note tiers .*waits for a slow one\|^note tiers " "no slow tier is no fault"
well lab-6.12-hmat
put proc/self/status "Name:	pghotctl
CapEff:	0000000000000000
CapBnd:	000001ffffffffff"
"$pghotctl" doctor --root "$root" >"$tmp/out" 2>"$tmp/err"
has out "^note capabilities not root" "an ordinary user is told what can't be seen"

# What an ordinary user can't see is not held against the machine.
if [ "$(id -u)" -ne 0 ] || ! setpriv --reuid=65534 --regid=65534 --clear-groups test -x "$pghotctl"; then
	skip "doctor as another user" "needs root, and $pghotctl for all"
else
	expect 0 "doctor as another user" setpriv --reuid=65534 --regid=65534 --clear-groups "$pghotctl" doctor --root "$root"
	if grep -q '^ok   hint_faults' "$tmp/out"; then
		skip "what can't be seen without root" "here everyone may open perf events"
	else
		has out "^note hint_faults *whether it works can't be seen without root" "a source that can't be tried is not called bad"
		has out "^Nothing is wrong, as far as it can be seen without root" "and the last line doesn't promise more"
	fi
fi

# What is no file is not waited for.
well lab-6.12-hmat
for path in proc/cmdline proc/zoneinfo proc/self/status proc/sys/kernel/osrelease sys/devices/system/node/online etc/pghotd.conf; do
	mkdir -p "$root/$(dirname $path)"
	rm -f "${root:?}/$path"
	mkfifo "$root/$path"
done
timeout 60 "$pghotctl" doctor --root "$root" >"$tmp/out" 2>"$tmp/err"
status=$?
if [ $status -le 1 ]; then ok "pipes in a recording are not waited for"; else not_ok "pipes in a recording are not waited for: $status"; fi

expect 1 "a root that isn't there" "$pghotctl" doctor --root /nonexistent/machine
one_line "a root that isn't there"
expect 64 "--root with another verb" "$pghotctl" status --root /
finish
