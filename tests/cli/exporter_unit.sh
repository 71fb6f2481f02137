#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# exporter_unit.sh SERVICE SOCKET EXPORTER: the exporter's units have no fault that systemd would find.
service=$1
socket=$2
exporter=$3
tmp=$(mktemp -d "${TMPDIR:-/tmp}/pghot-unit-XXXXXX") || exit 1
trap 'rm -rf "$tmp"' EXIT
passed=0
failed=0
skipped=0

# check NAME COMMAND...
check() {
	name=$1
	shift
	if "$@" >"$tmp/out" 2>&1; then
		passed=$((passed + 1))
		echo "ok: $name"
	else
		failed=$((failed + 1))
		echo "not ok: $name"
		sed 's/^/  /' "$tmp/out"
	fi
}

# shellcheck disable=SC2317 # check calls it
says_nothing() {
	"$@" >"$tmp/said" 2>&1 && [ ! -s "$tmp/said" ] && return
	cat "$tmp/said"
	return 1
}

# shellcheck disable=SC2317
has_not() {
	! grep "$@"
}

check "every path is filled in" has_not '@[a-z]*@' "$service"
check "it listens on the loopback interface only" has_not '^ListenStream=[^1]\|^ListenStream=1[^2]\|^ListenStream=[0-9]*$' "$socket"
check "the daemon need not run" has_not '^\(Requires\|BindsTo\|Requisite\)=.*pghotd\.service' "$service"
for line in DynamicUser=yes PrivateNetwork=yes CapabilityBoundingSet= NoNewPrivileges=yes SupplementaryGroups=pghot; do
	check "$line" grep -qx "$line" "$service"
done
if command -v systemd-analyze >/dev/null; then
	case $exporter in
	/*) ;;
	*) exporter=$PWD/$exporter ;;
	esac
	# verify wants the program to be there, so the one that was just built stands in.
	sed "s|^ExecStart=.*|ExecStart=\"$exporter\"|" "$service" >"$tmp/pghotd-exporter.service"
	cp "$socket" "$tmp/pghotd-exporter.socket"
	check "verify" says_nothing systemd-analyze verify --man=no --recursive-errors=no "$tmp/pghotd-exporter.service" \
		"$tmp/pghotd-exporter.socket"
	# Of 100, which is no protection at all; what is left is the socket that it uses.
	check "security" systemd-analyze security --offline=yes --threshold=20 "$tmp/pghotd-exporter.service"
else
	skipped=1
	echo "skip verify, security (there is no systemd-analyze)"
fi
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ]
