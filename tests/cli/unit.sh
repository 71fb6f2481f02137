#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# unit.sh UNIT PGHOTD PGHOTCTL SYSUSERS: the unit as it is installed has no fault that systemd would find.
absolute() {
	case $1 in
	/*) echo "$1" ;;
	*) echo "$PWD/$1" ;;
	esac
}

unit=$1
pghotd=$(absolute "$2")
pghotctl=$(absolute "$3")
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
grep -q '@' "$unit" && grep '@[a-z]*@' "$unit" && fault "a path was not filled in"
# verify wants the programs to be there, so the ones that were just built stand in.
sed -e "s|^\(Exec[A-Za-z]*=\)[^ ]*/pghotd\b|\1$pghotd|" \
	-e "s|^\(Exec[A-Za-z]*=\)[^ ]*/pghotctl\b|\1$pghotctl|" "$unit" >"$tmp/pghotd.service"
systemd-analyze verify --man=no --recursive-errors=no "$tmp/pghotd.service" >"$tmp/out" 2>&1 || fault "verify fails"
if [ -s "$tmp/out" ]; then
	cat "$tmp/out"
	fault "verify has something to say"
fi
# What the daemon can't do without, whatever is tightened.
for line in Type=notify "RestartPreventExitStatus=64 69 77 78" "RuntimeDirectoryPreserve=yes" \
	"ConditionKernelCommandLine=!pghotd=off" "ConditionKernelCommandLine=!elfcorehdr"; do
	grep -qx "$line" "$unit" || fault "no $line"
done
grep -q '^ProtectKernelTunables=' "$unit" && fault "ProtectKernelTunables shuts out the sysctls"
for capability in CAP_SYS_ADMIN CAP_PERFMON CAP_SYS_PTRACE CAP_SYS_NICE CAP_DAC_READ_SEARCH CAP_CHOWN; do
	grep -q "^CapabilityBoundingSet=.*\b$capability\b" "$unit" || fault "no $capability"
	grep -q "^#   $capability  *[a-z]" "$unit" || fault "$capability isn't explained"
done
if command -v systemd-sysusers >/dev/null; then
	mkdir -p "$tmp/root/etc"
	systemd-sysusers --root="$tmp/root" - <"$4" >"$tmp/out" 2>&1 || {
		cat "$tmp/out"
		fault "systemd-sysusers fails"
	}
	grep -q '^pghot:' "$tmp/root/etc/group" || fault "the group isn't made"
fi
[ $failed -eq 0 ] || exit 1
echo "ok: the unit has no fault"
