#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# pghotctl top, in a file and on a terminal.
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"

start --state promoting
# Rates are by the clock: only what doesn't depend on it is compared.
top() {
	sed -e 's/[0-9.]* [KMGT]*i*B\/s/RATE/; s/[0-9,]* samples\/s/N samples\/s/' -e '/ redis-server$/s/^\( *812\) .* \(3.0 GiB\|1.0 TiB\)/\1 RATE HOT/' \
		-e "s| /.*|  CGROUP|; s| (gone)|  CGROUP|" "$tmp/out" >"$tmp/top"
	cp "$tmp/top" "$tmp/out"
}
expect 0 "top --batch" "$pghotctl" top --batch --count 1
narrow "top"
has out "^pghotd: promoting; promotes .*/s, .* samples/s" "top says what happens in a second"
has out "^ *812 .* redis-server" "and who has it"
has out "^ *1 .* a .b. .c" "names can't drive the terminal"
top
golden top
expect 0 "top --by region" "$pghotctl" top --batch --count 1 --by region
narrow "top --by region"
top
golden top-region
expect 0 "top --by cgroup" "$pghotctl" top --batch --count 1 --by cgroup
has out "PROCS .* CGROUP" "top --by cgroup sums"
expect 0 "top --json" "$pghotctl" top --json --count 2
cp "$tmp/out" "$tmp/json"
expect 0 "each look is a line" python3 -c 'import json, sys
looks = [json.loads(line) for line in open(sys.argv[1])]
assert len(looks) == 2 and all({row["pid"] for row in look["rows"]} == {812, 1} for look in looks), looks
assert any(look["rows"][0]["hot_bytes_per_sec"] > 0 for look in looks)' "$tmp/json"
# On a terminal: what it shows, that it follows sizes and keys, and that the terminal is as it was in the end.
on_terminal() { # WHAT NAME
	if [ -n "$has_ncurses" ]; then
		expect 0 "$2" python3 "$(dirname "$0")/terminal.py" "$1" "$pghotctl" "$daemon"
	else
		skip "$2" "built without ncurses"
	fi
}
# Without ncurses screens follow one another, and stdin is asked for nothing.
if ldd "$pghotctl" | grep -q ncurses; then has_ncurses=yes; else has_ncurses=; fi
for by in "" -region; do
	on_terminal "screen$by" "top${by:+ by region} at 80x24"
	if [ -n "$has_ncurses" ]; then
		narrow "top${by:+ by region} at 80x24"
		top
		golden "top-live$by"
	fi
done
on_terminal narrow "top on a terminal of 20 columns"
on_terminal sizes "top follows the terminal's size"
on_terminal keys "top sorts and turns by keys"
on_terminal signals "top ends tidily by signals and the terminal's keys"
on_terminal stops "top stops and goes on as a job of a shell"
on_terminal others "top where no screen can be drawn anew"
on_terminal daemon_hangs "top of a daemon that hangs ends when it is told to"
on_terminal daemon_ends "top of a daemon that ends"
finish
