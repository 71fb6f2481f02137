#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# No daemon, a dead one, one that hangs, and no permission.
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"

down() {
	for args in "" status tune "tune mode" "tune mode=observe" "mode observe" reload pause resume; do
		# shellcheck disable=SC2086
		expect 3 "$1, \"$args\"" "$pghotctl" $args
		has err "$2" "$1, \"$args\" says so"
		one_line "$1, \"$args\""
		empty out "$1, \"$args\" writes nothing to stdout"
	done
}

down "no socket" "pghotd is not running.*systemctl start pghotd"
expect 3 "status --json" "$pghotctl" status --json
is_json "status --json" 'd["state"] == "down"'

start --state promoting
kill -KILL "$daemon"
wait "$daemon" 2>/dev/null
daemon=
if [ -S "$socket" ]; then ok "a killed daemon leaves its socket"; else not_ok "a killed daemon leaves its socket"; fi
down "a dead daemon's socket" "pghotd is not running"

start --state promoting
expect 0 "a new daemon takes over the socket" "$pghotctl"
expect 1 "a second daemon" "$fake_daemon" --socket "$socket"
has err "Address already in use" "a second daemon is refused"
expect 0 "the first one stays" "$pghotctl"
kill -STOP "$daemon"
expect 3 "a daemon that hangs" "$pghotctl" status
has err "does not answer within 5 s" "a daemon that hangs is told"
one_line "a daemon that hangs"
stop
if [ ! -e "$socket" ]; then
	ok "a daemon that ends removes its socket"
else
	not_ok "a daemon that ends removes its socket"
fi

echo >"$socket"
expect 3 "a file in the socket's place" "$pghotctl"
rm "$socket"
expect 1 "a path that is too long" "$pghotctl" --socket "/$(awk 'BEGIN { while (i++ < 200) printf "x" }')"
one_line "a path that is too long"

as_nobody() {
	setpriv --reuid=65534 --regid=65534 --clear-groups "$@"
}

if [ "$(id -u)" -ne 0 ]; then
	skip "no permission" "needs root to become another user"
elif ! as_nobody test -x "$pghotctl"; then
	skip "no permission" "another user can't get to $pghotctl"
else
	start --state promoting
	for args in "" status "status --json" tune "mode observe" reload "pause --for=1m" resume; do
		# shellcheck disable=SC2086
		expect 77 "nobody, \"$args\"" as_nobody "$pghotctl" $args
		has err "no permission.*only root may" "nobody, \"$args\" is told who may"
		one_line "nobody, \"$args\""
		empty out "nobody, \"$args\" sees nothing"
	done
	stop
	start --group adm
	expect 77 "nobody, with a group" as_nobody "$pghotctl"
	has err "no permission.*members of group adm" "nobody is told the group"
	expect 0 "a member of the group" setpriv --reuid=65534 --regid=65534 --groups "$(getent group adm | cut -d: -f3)" \
		"$pghotctl"
	stop
	start --group no-such-group
	has log "no group \"no-such-group\"" "a group that isn't there is logged"
	expect 77 "nobody, no group" as_nobody "$pghotctl"
	expect 0 "root, no group" "$pghotctl"
	stop
fi
finish
