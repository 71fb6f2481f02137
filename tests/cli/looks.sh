#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# What status, explain and heat show of a daemon that answers.
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"

screen() {
	narrow "$1"
	if [ "$(wc -l <"$tmp/out")" -le 23 ]; then ok "$1 is one screen"; else not_ok "$1 is one screen"; fi
	if grep -q "$(printf '\033')" "$tmp/out"; then not_ok "$1: no colour in a file"; else ok "$1: no colour in a file"; fi
	golden "$1"
}

# What changes from run to run, or from version to version, is not what is compared.
named() {
	sed -e 's/^pghotd [0-9.]*:/pghotd VERSION:/; s/ pid [0-9]*$/ pid PID/; s/^  [0-9]*$/  PID/' "$tmp/out" >"$tmp/status"
	cp "$tmp/status" "$tmp/out"
}
status_screen() { # NAME
	narrow "$1"
	if [ "$(wc -l <"$tmp/out")" -le 23 ]; then ok "$1 is one screen"; else not_ok "$1 is one screen"; fi
	named
	golden "$1"
}
start --state promoting
expect 0 "status" "$pghotctl" status
status_screen status
# Lines are made for 40 columns, not broken by the terminal; and a pipe has no columns.
expect 0 "status on a terminal of 40 columns" python3 "$(dirname "$0")/terminal.py" status "$pghotctl"
named
golden status-narrow
expect 0 "tune" "$pghotctl" tune promote.rate_mib_per_sec=256
expect 0 "tune" "$pghotctl" tune kinds.shared=true
expect 0 "pause" "$pghotctl" pause
expect 1 "status of a pause" "$pghotctl" status
status_screen status-paused
expect 0 "tune" "$pghotctl" tune make_room=off
expect 1 "status without room being made" "$pghotctl" status
has out "^Room *make_room makes none; 1.0 GiB moved down before" "that no room is made is told"
stop
start --state degraded
expect 2 "status, degraded" "$pghotctl" status
status_screen status-degraded
stop

start --state promoting
expect 0 "heat" "$pghotctl" heat
screen heat
expect 0 "heat --pid" "$pghotctl" heat --pid 812
screen heat-pid
expect 0 "heat --node" "$pghotctl" heat --pid 812 --node 0
has out "seen on node 0" "heat --node says so"
expect 0 "heat of nothing" "$pghotctl" heat --pid 4711
has out "^Nothing is known yet" "an empty map is told"
expect 0 "heat in blocks" env LC_ALL=C.UTF-8 "$pghotctl" heat --pid 812 --node 0
has out "$(printf '\342\226\210')" "where the terminal has blocks, blocks are used"
expect 0 "heat --json" "$pghotctl" heat --json
is_json "heat --json" 'd["rows"][0]["pid"] == 812 and len(d["rows"][0]["cells"]) == 64 and d["hottest"][0]["rate_per_sec"] == 40'
expect 0 "heat --svg" "$pghotctl" heat --svg "$tmp/heat.svg"
empty out "heat --svg writes to its file alone"
expect 0 "it is well-formed" python3 -c 'import sys, xml.dom.minidom
root = xml.dom.minidom.parse(sys.argv[1]).documentElement
assert root.getAttribute("viewBox")
assert root.tagName == "svg" and len(root.getElementsByTagName("rect")) > 64, len(root.getElementsByTagName("rect"))' "$tmp/heat.svg"
echo old >"$tmp/old.svg"
expect 1 "heat --svg where it can't write" "$pghotctl" heat --svg /nonexistent/heat.svg
one_line "heat --svg where it can't write"
if [ -w /dev/full ]; then
	ln -s /dev/full "$tmp/old.svg.new"
	expect 1 "heat --svg on a full disk" "$pghotctl" heat --svg "$tmp/old.svg"
	if [ "$(cat "$tmp/old.svg")" = old ]; then ok "what was there stays"; else not_ok "what was there stays"; fi
	ln -s /dev/full "$tmp/full.svg"
	expect 1 "heat --svg into a device" "$pghotctl" heat --svg "$tmp/full.svg"
	if [ -L "$tmp/full.svg" ]; then ok "a link to a device stays"; else not_ok "a link to a device stays"; fi
fi
if [ -w /dev/full ]; then
	# shellcheck disable=SC2016 # the inner shell expands it
	expect 1 "more JSON than a full disk takes" sh -c '"$0" heat --json >/dev/full' "$pghotctl"
	has err "No space left on device" "is told"
	one_line "more JSON than a full disk takes"
fi
# As root, what is replaced is /dev/stdout.
mkfifo "$tmp/pipe.svg"
cat "$tmp/pipe.svg" >"$tmp/piped.svg" &
others="$others $!"
expect 0 "heat --svg into a pipe" "$pghotctl" heat --svg "$tmp/pipe.svg"
if [ -p "$tmp/pipe.svg" ]; then
	ok "a pipe stays one"
	wait $!
	expect 0 "and carries the picture" cmp "$tmp/heat.svg" "$tmp/piped.svg"
else
	not_ok "a pipe stays one"
fi

expect 0 "explain PID" "$pghotctl" explain 812
screen explain
expect 0 "explain PID:ADDRESS" "$pghotctl" explain 812:0x7f3a12000000
screen explain-region
expect 0 "explain --json" "$pghotctl" explain 812:7f3a12000000 --json
is_json "explain --json" 'd["region"]["reason"] == "cooler" and d["left"] == "shared"'
expect 1 "explain of what is not known" "$pghotctl" explain 77
has err "nothing is known of pid 77" "what is not known is told"
one_line "explain of what is not known"
for bad in "" x 812: :7f 12x 812x:7; do
	expect 64 "explain \"$bad\"" "$pghotctl" explain "$bad"
	one_line "explain \"$bad\""
done
expect 64 "explain without a pid" "$pghotctl" explain
stop

start --garbage
for args in "heat" "explain 812"; do
	# shellcheck disable=SC2086
	expect 1 "$args, an answer that is none" "$pghotctl" $args
	empty out "$args, an answer that is none"
done
expect 1 "heat --svg, an answer that is none" "$pghotctl" heat --svg "$tmp/none.svg"
if [ -e "$tmp/none.svg" ] || [ -e "$tmp/none.svg.new" ]; then not_ok "no picture of no answer"; else ok "no picture of no answer"; fi
stop
finish
