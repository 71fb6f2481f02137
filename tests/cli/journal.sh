#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# What the daemon leaves in a journal, and what is made of it: a journald of its own, in a mount namespace.
#     journal.sh PGHOTCTL PGHOTD MACHINE CATALOG
# shellcheck source-path=SCRIPTDIR source=lib.sh
journald=/lib/systemd/systemd-journald
if [ -z "${PGHOT_JOURNAL_INSIDE:-}" ]; then
	why=
	if [ "$(id -u)" -ne 0 ]; then
		why="needs root for a journald of its own"
	elif [ ! -x $journald ] || ! command -v journalctl >/dev/null; then
		why="there is no journald here (package systemd)"
	elif ! unshare --mount true 2>/dev/null; then
		why="no mount namespace can be had here"
	fi
	if [ -n "$why" ]; then
		echo "skip journal ($why)"
		echo "0 passed, 0 failed, 1 skipped"
		exit 77
	fi
	exec env PGHOT_JOURNAL_INSIDE=1 unshare --mount sh "$0" "$@"
fi
mount -t tmpfs none /run || exit 1
. "$(dirname "$0")/lib.sh"

pghotctl=$(realpath "$1")
pghotd=$(realpath "$2")
machine=$3
catalog=$4
root=$tmp/machine
conf=$tmp/pghotd.conf
mkdir "$tmp/run"
build_machine "$machine" "$root"
mkdir -p "$root/proc/sys/kernel" "$root/sys/devices/system/cpu"
echo 2 >"$root/proc/sys/kernel/numa_balancing"
echo 0 >"$root/proc/sys/kernel/numa_balancing_promote_rate_limit_MBps"
echo 0 >"$root/sys/devices/system/cpu/online"
printf 'pgpromote_success 0\nnuma_pages_migrated 0\n' >"$root/proc/vmstat"
: >"$conf"

mkdir -p /run/log/journal/"$(cat /etc/machine-id 2>/dev/null)" /run/systemd
$journald >"$tmp/journald" 2>&1 &
others=$!
# It listens a moment before it has a journal to read.
# shellcheck disable=SC2317 # poll calls it
is_there() {
	[ -S /run/systemd/journal/socket ] && [ -n "$(journalctl --quiet --lines 1)" ]
}
if ! poll 600 is_there; then
	sed 's/^/  /' "$tmp/journald"
	skip "journal" "journald does not start here"
	finish
fi
if ! "$pghotd" --list-sources --root "$root" -c "$conf" >"$tmp/out" 2>&1; then
	skip "journal" "no source can run here: $(tr '\n' ' ' <"$tmp/out")"
	finish
fi

# The machine's own journal may have some.
expect 0 "events before the first one" "$pghotctl" events
if [ ! -s "$tmp/out" ]; then
	has err "the journal has no event of pghotd" "that there is none is told"
	one_line "events before the first one"
fi
cp "$pghotctl" "$tmp/pghotctl"
expect 77 "events of who may not read the journal" setpriv --reuid=65534 --regid=65534 --clear-groups "$tmp/pghotctl" events
has err "no journal here that you may read" "who may is told"

# As systemd starts it: it is told that its stderr is the journal.
: >"$tmp/log"
stream=$(stat -c %d:%i "$tmp/log")
JOURNAL_STREAM=$stream "$pghotd" --root "$root" --run-dir "$tmp/run" -c "$conf" 2>>"$tmp/log" &
daemon=$!
# shellcheck disable=SC2317 # poll calls it
answers() {
	"$pghotctl" status >/dev/null || [ $? -ne 3 ]
}
poll 600 answers
expect 0 "tune" "$pghotctl" tune promote.rate_mib_per_sec=256
expect 1 "a refused tune" "$pghotctl" tune promote.burst_ms=0
echo 'promote = { rate_mib_per_sec = 512; };' >"$conf"
expect 0 "reload" "$pghotctl" reload
echo 'mdoe = "observe";' >"$conf"
expect 1 "a refused reload" "$pghotctl" reload
kill "$daemon"
wait "$daemon"
daemon=

# What is logged is there a moment later.
# shellcheck disable=SC2317 # poll calls it
has_line() { # PATTERN
	journalctl -o cat | grep -q "$1"
}
poll 600 has_line '^stopping'
expect 0 "events" "$pghotctl" events
narrow "events"
has out "^20..-..-.. ..:..:.. start  *running in mode" "the start is an event"
has out "change  *uid 0 (pid [0-9]*, pghotctl) changed" "a change is one"
has out "refused  *uid 0 .* may not set" "so is one that was refused"
has out "reload  *configuration read again" "and a reload"
has out "stop  *stopping: asked to" "and the stop"
expect 0 "events --json" "$pghotctl" events --json
cp "$tmp/out" "$tmp/events"
expect 0 "the record of a change has who, what, from and to" python3 -c 'import json, sys
events = [json.loads(line) for line in open(sys.argv[1])]
changes = [(e["PGHOT_PEER_UID"], e["PGHOT_OPTION"], e["PGHOT_FROM"], e["PGHOT_TO"]) for e in events if e["event"] == "change"]
assert changes == [("0", "promote.rate_mib_per_sec", "1024", "256"), ("0", "promote.rate_mib_per_sec", "256", "512")], changes
assert all(int(e["PGHOT_PEER_PID"]) > 0 for e in events if e["event"] == "change")' "$tmp/events"
expect 0 "events --lines" "$pghotctl" events --lines 1
has out "stop " "the last one is the last"
if [ "$(grep -c '^20' "$tmp/out")" -eq 1 ]; then ok "one is one"; else not_ok "one is one"; fi
expect 0 "journalctl PGHOT_OPTION=" journalctl -o cat PGHOT_OPTION=promote.burst_ms
has out "may not set promote.burst_ms to 0" "fields are searched by"

# What somebody else says in its name is no event.
printf 'MESSAGE=forged\nSYSLOG_IDENTIFIER=pghotd\nMESSAGE_ID=119692d4de584b4b951e9918681057b1\n' |
	setpriv --reuid=65534 --regid=65534 --clear-groups logger --journald
poll 600 has_line '^forged$'
expect 0 "journalctl has the forged line" journalctl -o cat SYSLOG_IDENTIFIER=pghotd
has out "^forged$" "it is in the journal"
expect 0 "events" "$pghotctl" events
if grep -q forged "$tmp/out"; then not_ok "events leaves out what another wrote"; else ok "events leaves out what another wrote"; fi

# journalctl -x.
mkdir -p "$tmp/catalog/usr/lib/systemd/catalog" "$tmp/catalog/var/lib/systemd/catalog"
cp "$catalog" "$tmp/catalog/usr/lib/systemd/catalog/"
expect 0 "the catalogue is taken in" journalctl --update-catalog --root "$tmp/catalog"
if grep -qi "fail\|ignor\|invalid" "$tmp/err"; then not_ok "without complaint"; else ok "without complaint"; fi
expect 0 "every message is in it" python3 -c 'import re, sys
ids = re.findall(r"^MESSAGE\(\w+, \"\w+\", \"(\w{32})\"", open(sys.argv[1]).read(), re.M)
made = re.findall(r"^-- (\w{32})$", open(sys.argv[2]).read(), re.M)
assert len(ids) > 10 and ids == made, (ids, made)' "$(dirname "$0")/../../include/messages.def" "$catalog"
finish
