#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# sources.sh PGHOTCTL PGHOTD: what --list-sources says of machines that are made of a few files: of each source what it
# lacks, and how to get it.
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"
pghotd=$2
: >"$tmp/conf"

put() { # PATH TEXT
	mkdir -p "$(dirname "$root/$1")"
	printf '%s\n' "$2" >"$root/$1"
}

# machine NAME CPU FLAGS KERNEL PARANOID CAPABILITIES
machine() {
	root=$tmp/$1
	put proc/cpuinfo "vendor_id	: $2
model name	: CPU of the test
cpu family	: 25
model		: 17
flags		: fpu $3 sse
address sizes	: 52 bits physical, 57 bits virtual"
	put proc/sys/kernel/osrelease "$4"
	put proc/sys/kernel/perf_event_paranoid "$5"
	put proc/sys/kernel/perf_event_max_sample_rate 100000
	put proc/sys/kernel/numa_balancing 0
	put proc/sys/kernel/numa_balancing_promote_rate_limit_MBps 65536
	put proc/self/status "Name:	pghotd
CapEff:	$6"
	put sys/devices/system/cpu/online 0
	put sys/devices/system/cpu/possible 0-3
}

ibs_op() { # more formats and caps
	put sys/bus/event_source/devices/ibs_op/type 11
	put sys/bus/event_source/devices/ibs_op/format/cnt_ctl config:19
	put sys/bus/event_source/devices/ibs_op/format/l3missonly config:16
	put sys/bus/event_source/devices/ibs_op/caps/zen4_ibs_extensions 1
	for file; do
		put "sys/bus/event_source/devices/ibs_op/${file%%=*}" "${file#*=}"
	done
}

# lists STATUS NAME: its lines, one for the machine and one for each source.
lists() {
	expect "$1" "$2" "$pghotd" --list-sources --root "$root" -c "$tmp/conf"
	empty err "$2: nothing on stderr"
	if [ "$(cut -c 1-12 "$tmp/out" | tr -s ' \n' ' ')" = "machine ibs hint_faults " ]; then
		ok "$2: a line each"
	else
		not_ok "$2: not a line each"
	fi
}

all=000001ffffffffff

machine zen4 AuthenticAMD ibs 6.12.117-amd64 2 $all
ibs_op
lists 0 "Zen 4"
has out "^ibs  *can work here: ibs_op, counts ops, L3 misses only, kernel left out by pghotd$" "what it would be set to"
has out "^machine .*CPU of the test, Linux 6.12.117-amd64, kernel.perf_event_paranoid 2" "what is to be known of the machine"
has out "^hint_faults  *no: kernel.numa_balancing is 0.*manage_sysctls" "what hint faults lack"

machine zen5 AuthenticAMD ibs 6.16.3 3 $all
ibs_op format/swfilt=config2:0 format/ldlat=config1:0-11 caps/ldlat=1 caps/dtlb_pgsize=1
lists 0 "Zen 5"
has out "left out by the kernel, page size by hardware; Linux 6.16 may hide physical addresses" "a kernel that hides addresses"

machine zen5-3 AuthenticAMD ibs 6.12.0 3 0000004000000000
ibs_op
lists 69 "Zen 5 at level 3 with CAP_PERFMON"
has out "^ibs  *no: perf events need CAP_SYS_ADMIN while kernel.perf_event_paranoid is 3: run .*paranoid=2" "what to do"

machine zen5-2 AuthenticAMD ibs 6.12.0 2 0000000000000000
ibs_op
lists 69 "Zen 5 at level 2 with nothing"
has out "^ibs  *no: perf events need CAP_PERFMON (kernel.perf_event_paranoid is 2)" "what to do"
put proc/self/status "Name:	pghotd
CapEff:	0000004000000000"
lists 0 "Zen 5 at level 2 with CAP_PERFMON"

machine zen5-0 AuthenticAMD ibs 6.12.0 0 0000000000000000
ibs_op
put proc/sys/kernel/perf_event_max_sample_rate 6250
expect 0 "Zen 5 at level 0" "$pghotd" --list-sources --root "$root" -c "$tmp/conf"
has out "sysctl -w kernel.perf_event_max_sample_rate=100000" "a rate that was lowered before"

machine zen6 AuthenticAMD ibs 7.1.0 1 $all
ibs_op
put sys/bus/event_source/devices/ibs_mprof/type 12
put sys/bus/event_source/devices/ibs_mprof/format/novelty config:3
lists 0 "Zen 6 with a profiler that nobody knows"
has out "ibs_op, .*; ibs_op instead of the profiler: .*novelty" "the profiler is refused, and why"

machine intel GenuineIntel pebs 6.12.0 2 $all
lists 69 "Intel"
has out "^ibs  *no: .*ibs_op.*Intel's: use hint_faults" "IBS is AMD's"

machine vm AuthenticAMD hypervisor 6.12.0 2 $all
lists 69 "a virtual machine on AMD"
has out "^machine .*, a virtual machine, " "that it is one"
has out "^ibs  *no: .*host passes IBS through" "the host must pass it through"

machine bare AuthenticAMD svm 6.12.0 2 $all
lists 69 "AMD without IBS"
has out "^ibs  *no: .*firmware" "where it may be switched off"
machine taken AuthenticAMD ibs 6.12.0 2 $all
lists 69 "AMD with IBS and no unit"
has out "^ibs  *no: .*dmesg" "where to look"

machine tiered AuthenticAMD hypervisor 6.12.0 2 $all
put proc/sys/vm/pghot_enabled_sources 2
ibs_op
lists 69 "a kernel that promotes itself"
has out "^ibs  *no: the kernel promotes as well: .*pghot_enabled_sources=0" "how to leave it to pghotd"

root=$tmp/nothing
mkdir "$root"
expect 69 "no file at all" "$pghotd" --list-sources --root "$root" -c "$tmp/conf"
has out "^ibs  *no: .*AMD's CPUs have it, and in a virtual machine the host must pass it through" "what is to be said anyway"
expect 1 "no such folder" "$pghotd" --list-sources --root "$tmp/none" -c "$tmp/conf"

expect 64 "a configuration for a scenario" "$pghotd" --simulate chase -c "$tmp/conf"
has err "a scenario has its own settings" "it would do nothing"

if [ -w /dev/full ]; then
	for args in --help --version --print-defaults "--check-config -c $tmp/conf"; do
		# shellcheck disable=SC2016,SC2086 # the inner shell expands it, into words
		expect 1 "$args on a full disk" sh -c '"$0" "$@" >/dev/full' "$pghotd" $args
		has err "cannot write the answer: No space left" "$args on a full disk is told"
		one_line "$args on a full disk"
	done
fi
finish
