#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# unit.sh UNIT PGHOTD PGHOTCTL SYSUSERS HELPER SOCKET: the units as they are installed have no fault that systemd would find.
absolute() {
	case $1 in
	/*) echo "$1" ;;
	*) echo "$PWD/$1" ;;
	esac
}

unit=$1
pghotd=$(absolute "$2")
pghotctl=$(absolute "$3")
helper=$5
socket=$6
tmp=$(mktemp -d "${TMPDIR:-/tmp}/pghot-unit-XXXXXX") || exit 1
trap 'rm -rf "$tmp"' EXIT
failed=0

fault() {
	failed=1
	echo "not ok: $1"
}

if ! command -v systemd-analyze >/dev/null; then
	echo "skip there is no systemd-analyze"
	exit 77
fi
# verify wants the programs to be there, so the ones that were just built stand in.
for file in "$unit" "$helper" "$socket"; do
	grep '@[a-z]*@' "$file" && fault "a path was not filled in"
	sed -e "s|^\(Exec[A-Za-z]*=\)[^ ]*/pghotd\b|\1\"$pghotd\"|" \
		-e "s|^\(Exec[A-Za-z]*=\)[^ ]*/pghotctl\b|\1\"$pghotctl\"|" "$file" >"$tmp/$(basename "$file")"
done
systemd-analyze verify --man=no --recursive-errors=no "$tmp"/pghotd* >"$tmp/out" 2>&1 || fault "verify fails"
if [ -s "$tmp/out" ]; then
	cat "$tmp/out"
	fault "verify has something to say"
fi
# exposure FILE: what systemd says of it, in tenths.
exposure() {
	systemd-analyze security --offline=true --no-pager "$tmp/$(basename "$1")" 2>&1 |
		sed -n 's/.*exposure level for [^:]*: \([0-9]*\)\.\([0-9]\) .*/\1\2/p'
}
if systemd-analyze --help | grep -q -- --offline; then
	figure=$(exposure "$unit")
	[ "${figure:-99}" -le 20 ] || fault "systemd-analyze security: $figure tenths for pghotd.service, at most 20"
	figure=$(exposure "$helper")
	[ "${figure:-99}" -le 25 ] || fault "systemd-analyze security: $figure tenths for pghotd-helper.service, at most 25"
fi
# What the daemon can't do without, whatever is tightened.
for line in Type=notify "RestartPreventExitStatus=64 69 77 78" "RuntimeDirectoryPreserve=yes" \
	"ConditionKernelCommandLine=!pghotd=off" "ConditionKernelCommandLine=!elfcorehdr"; do
	grep -qx "$line" "$unit" || fault "no $line"
done
# capabilities FILE LIST: these and no other, and each explained.
capabilities() {
	[ "$(sed -n 's/^CapabilityBoundingSet=//p' "$1")" = "$2" ] || fault "$1 has other capabilities than $2"
	for capability in $2; do
		grep -q "^#   $capability  *[a-z]" "$1" || fault "$capability isn't explained in $1"
	done
}
capabilities "$unit" "CAP_PERFMON CAP_SYS_PTRACE CAP_SYS_NICE CAP_IPC_LOCK"
grep -qx "AmbientCapabilities=CAP_PERFMON CAP_SYS_PTRACE CAP_SYS_NICE CAP_IPC_LOCK" "$unit" ||
	fault "a process of a user gets its capabilities as ambient ones"
grep -qx User=pghotd "$unit" || fault "no User=pghotd"
capabilities "$helper" "CAP_SYS_ADMIN CAP_SYS_PTRACE CAP_DAC_READ_SEARCH"
grep -q '^ProtectKernelTunables=' "$helper" && fault "ProtectKernelTunables shuts out the sysctls"
grep -qx SocketMode=0660 "$socket" || fault "others may connect to the helper"
if command -v systemd-sysusers >/dev/null; then
	mkdir -p "$tmp/root/etc"
	systemd-sysusers --root="$tmp/root" - <"$4" >"$tmp/out" 2>&1 || {
		cat "$tmp/out"
		fault "systemd-sysusers fails"
	}
	grep -q '^pghot:.*:pghotd$' "$tmp/root/etc/group" || fault "the group isn't made, with pghotd in it"
	grep -q '^pghotd:.*nologin$' "$tmp/root/etc/passwd" || fault "the user isn't made"
fi
[ $failed -eq 0 ] || exit 1
echo "ok: the units have no fault"
