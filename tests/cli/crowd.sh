#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# A hundred clients at once beside one that says nothing; and a daemon that is full.
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"

start --state promoting
start_other --hold 1
pids=
i=0
while [ $i -lt 100 ]; do
	"$pghotctl" tune --json >"$tmp/out.$i" 2>"$tmp/err.$i" &
	pids="$pids $!"
	i=$((i + 1))
done
served=0
for pid in $pids; do
	if wait "$pid"; then served=$((served + 1)); fi
done
cat "$tmp"/err.* >"$tmp/err"
: >"$tmp/out"
if [ $served -eq 100 ]; then ok "100 of 100 clients are served"; else not_ok "$served of 100 clients are served"; fi
whole=0
for answer in "$tmp"/out.*; do
	[ "$(tail -c 2 "$answer")" = "}" ] && whole=$((whole + 1))
done
if [ $whole -eq 100 ]; then ok "100 of 100 answers are whole"; else not_ok "$whole of 100 answers are whole"; fi
expect 0 "after the crowd" "$pghotctl"

start_other --hold 63
expect 3 "a daemon that is full" "$pghotctl"
has err "too many clients" "a daemon that is full is told"
one_line "a daemon that is full"
has log "is refused: too many are connected" "the daemon logs whom it refused"
# A place that gets free within the time is taken.
last=${others##* }
(
	sleep 1
	kill "$last"
) &
expect 0 "a daemon that was full a moment ago" "$pghotctl"
finish
