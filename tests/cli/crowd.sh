#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# A hundred clients at once beside one that says nothing; a daemon that is full; five hundred that come again and again,
# of which some behave badly; and changes while it reads its file again.
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
stop

start --state promoting
expect 0 "before the crowd" "$pghotctl"
open_files() {
	find "/proc/$daemon/fd" -mindepth 1 | wc -l
}
resident_kib() {
	awk '/^VmRSS:/ { print $2 }' "/proc/$daemon/status"
}
files_before=$(open_files)
kib_before=$(resident_kib)
seconds=${PGHOT_CROWD_SECONDS:-3}
ask='ask ask ask ask ask ask ask ask ask ask'
# shellcheck disable=SC2086 # words
expect 0 "500 clients for $seconds s" "$3" "$socket" 500 "$seconds" $ask $ask leave leave cut cut large slow silent
cat "$tmp/out"
cp "$tmp/out" "$tmp/crowd"
for kind in ask leave cut; do
	cp "$tmp/crowd" "$tmp/out"
	has out "^$kind: [1-9][0-9]* answered" "those of kind $kind get on"
done
has out "^large: 0 answered" "100 MiB are not taken"
expect 0 "a client after them" "$pghotctl"
tries=0
until [ "$(open_files)" -le "$files_before" ] || [ $tries -eq 300 ]; do
	tries=$((tries + 1))
	sleep 0.1
done
open_files >"$tmp/out"
if [ "$(open_files)" -le "$files_before" ]; then ok "all their descriptors are closed"; else not_ok "all their descriptors are closed"; fi
grown=$(($(resident_kib) - kib_before))
echo "grown by $grown KiB" >"$tmp/out"
# A connection is allowed 256 KiB in the kernel and a few messages of 64 KiB here, and 64 of them are there at once.
if grep -q '__[at]san_init' "$fake_daemon"; then
	skip "the daemon's memory" "a sanitizer keeps what is freed"
elif [ $grown -le 32768 ]; then
	ok "the daemon has not grown by more than 32 MiB"
else
	not_ok "the daemon has not grown by more than 32 MiB"
fi
stop

# Everyone gets an answer, and in the end the file holds.
start --state promoting
again() { # TIMES WORDS...
	times=$1
	shift
	while [ "$times" -gt 0 ]; do
		"$pghotctl" "$@" >/dev/null 2>>"$tmp/err.again" || echo "$* failed" >>"$tmp/failed"
		times=$((times - 1))
	done
}
: >"$tmp/failed"
: >"$tmp/err.again"
again 20 tune promote.burst_ms=50 &
first=$!
again 20 tune promote.burst_ms=60 &
second=$!
again 20 reload
wait $first $second
cat "$tmp/failed" "$tmp/err.again" >"$tmp/err"
empty err "tune during reload is answered each time"
expect 0 "reload" "$pghotctl" reload
expect 0 "what the file says" "$pghotctl" tune promote.burst_ms
has out "= 100 ms" "holds in the end"
finish
