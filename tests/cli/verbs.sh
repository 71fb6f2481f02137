#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Every verb against a daemon that answers.
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"

for case in promoting:0 observing:1 waiting:1 paused:1 starting:1 stopping:1 degraded:2; do
	start --state "${case%:*}"
	expect "${case#*:}" "bare, ${case%:*}" "$pghotctl"
	has out ": ${case%:*}" "the screen names the state"
	narrow "the screen"
	if [ "$(wc -l <"$tmp/out")" -le 23 ]; then ok "the screen is one"; else not_ok "the screen is one"; fi
	expect "${case#*:}" "status --json, ${case%:*}" "$pghotctl" status --json
	is_json "status --json" "d['state'] == '${case%:*}' and d['tiers'][0]['room_bytes'] > 0 and 'total' in d['counters']"
	stop
done

start --state observing
expect 1 "status" "$pghotctl" status
empty err "nothing to warn of"
has out "pghotctl mode promote" "observing tells how to go on"
if grep -q "$(printf '\033')" "$tmp/out"; then not_ok "no colour in a file"; else ok "no colour in a file"; fi

expect 0 "tune" "$pghotctl" tune
narrow "tune"
has out "^promote.rate_mib_per_sec  *1024  *1024  *0..1048576  *MiB/s  *default" "tune lists an option"
has out "^mode  *promote  *promote  *observe|promote  *default" "tune lists a choice"
expect 0 "tune KEY" "$pghotctl" tune promote.burst_ms
has out "^promote.burst_ms = 100 ms" "tune KEY shows value and unit"
has out "^  range: 1 to 10000" "tune KEY shows the range"
expect 0 "tune PART" "$pghotctl" tune freq
has out "^promote.freq_window_ms" "tune PART shows what has it in its name"
expect 1 "tune of an unknown key" "$pghotctl" tune nosuch
has err "no option like \"nosuch\"" "an unknown key is told"
one_line "an unknown key"
expect 0 "tune --json" "$pghotctl" tune --json
is_json "tune --json" 'len(d["options"]) > 15 and all(k in d["options"][0] for k in
	("key", "type", "unit", "default", "value", "origin", "change", "help"))'
expect 0 "tune KEY --json" "$pghotctl" --json tune mode
is_json "tune KEY --json" 'len(d["options"]) == 1 and d["options"][0]["choices"] == ["observe", "promote"]'
expect 1 "tune of an unknown key --json" "$pghotctl" --json tune nosuch
is_json "tune of an unknown key --json" 'd["options"] == []'

expect 0 "tune KEY=VALUE" "$pghotctl" tune promote.rate_mib_per_sec=256
has out "^promote.rate_mib_per_sec: 1024 -> 256$" "a change shows from and to"
has log "uid $(id -u), .*, set promote.rate_mib_per_sec to 256" "the daemon knows who asked"
expect 0 "the changed option" "$pghotctl" tune rate_mib
has out "256  *1024 .*tuned$" "a tuned value is marked"
expect 1 "status of tuned values" "$pghotctl" status
has out "^Tuned  *promote.rate_mib_per_sec = 256 (file: 1024)" "status shows what the file says otherwise"
expect 1 "status --json of tuned values" "$pghotctl" status --json
is_json "tuned values as JSON" 'd["tuned"] == [{"key": "promote.rate_mib_per_sec", "value": "256", "file": "1024", "restart": False}]'
expect 0 "the same again" "$pghotctl" tune promote.rate_mib_per_sec=256
has out "256 already" "no change is said to be none"
expect 0 "tune KEY=VALUE --json" "$pghotctl" tune promote.rate_mib_per_sec=128 --json
is_json "tune KEY=VALUE --json" 'd["from"] == "256" and d["to"] == "128"'
expect 0 "tune of an alias" "$pghotctl" tune freq_threshold=3
has out "^freq_threshold: 3$" "an alias shows what it was set to"
expect 0 "a value below 0" "$pghotctl" tune target_nid=0
expect 0 "a value below 0" "$pghotctl" tune target_nid=-1
has out "^target_nid: 0 -> -1$" "a value below 0 is no option"
for bad in promote.rate_mib_per_sec=fast promote.rate_mib_per_sec=-1 promote.rate_mib_per_sec= mode=fast \
	mdoe=promote control.group=x; do
	expect 1 "tune $bad" "$pghotctl" tune "$bad"
	one_line "tune $bad"
	empty out "tune $bad changes nothing"
done
expect 1 "tune of a typo" "$pghotctl" tune mdoe=promote
has err "did you mean mode" "the daemon's nearest key comes through"
expect 1 "tune of what needs a restart" "$pghotctl" tune control.group=x
has err "takes effect at the start only" "the daemon's sentence comes through"
expect 1 "tune with no text" "$pghotctl" tune "mode=$(printf '\377')"
one_line "tune with no text"
expect 1 "tune with too long a text" "$pghotctl" tune "mode=$(awk 'BEGIN { while (i++ < 60000) printf "x" }')"
one_line "tune with too long a text"
expect 1 "tune with far too long a text" "$pghotctl" tune "mode=$(awk 'BEGIN { while (i++ < 80000) printf "x" }')"
has err "the value is too long" "far too long a text is told"
expect 64 "heat with far too long a node" "$pghotctl" heat --node "$(awk 'BEGIN { while (i++ < 80000) printf "1" }')"
one_line "heat with far too long a node"

expect 0 "mode" "$pghotctl" mode
has out "^promote$" "mode alone shows it"
expect 0 "mode observe" "$pghotctl" mode observe
has out "^mode: promote -> observe$" "mode shows from and to"
expect 0 "mode" "$pghotctl" mode --json
is_json "mode --json" 'd["mode"] == "observe"'
expect 0 "reload" "$pghotctl" reload
has out "mode: tuned value reverted" "reload tells what it reverted"
"$pghotctl" status >"$tmp/out"
if grep -q "^Tuned" "$tmp/out"; then not_ok "nothing is tuned after a reload"; else ok "nothing is tuned after a reload"; fi
expect 0 "reload again" "$pghotctl" reload
has out "^configuration read again$" "reload with nothing to revert"
expect 0 "reload --json" "$pghotctl" reload --json
is_json "reload --json" 'd["note"] == ""'
expect 1 "--socket wins" env PGHOTCTL_SOCKET=/nonexistent/bus "$pghotctl" --socket "$socket" status
stop

start --state promoting
expect 0 "pause --for" "$pghotctl" pause --for=10m
has out "^paused for 10 minutes: " "pause says how long"
has out "pghotctl resume" "and how to go on"
expect 1 "status of a pause" "$pghotctl" status
has out ": paused, in mode promote;" "the screen says so"
expect 0 "metrics of a pause" "$pghotctl" metrics
has out "^pghotd_state{state=\"paused\"} 1$" "so do metrics"
has out "^pghotd_pause_left_seconds 600.000000000$" "with what is left"
expect 0 "pause for ever" "$pghotctl" pause
has out "^paused: " "which has no time"
expect 1 "status --json of a pause" "$pghotctl" status --json
is_json "a pause as JSON" 'd["state"] == "paused" and d["pause"]["left_ns"] is None and d["pause"]["comm"] == "pghotctl"'
expect 0 "resume" "$pghotctl" resume
has out "^resumed$" "resume says so"
expect 0 "resume of what isn't paused" "$pghotctl" resume
has out "^resumed, but it is not paused$" "which is said"
expect 0 "status after it" "$pghotctl" status --json
is_json "no pause is null" 'd["pause"] is None'
expect 0 "pause --json" "$pghotctl" pause --for=2h --json
is_json "pause --json" 'd["left_ns"] == 7200 * 10**9'
expect 0 "resume --json" "$pghotctl" resume --json
is_json "resume --json" 'd["note"] == ""'
stop
start --state promoting --no-source
expect 0 "pause" "$pghotctl" pause
expect 0 "resume where the source is taken" "$pghotctl" resume
has out "^resumed, but no source works: the PMU is busy$" "says so"
expect 2 "status after it" "$pghotctl" status
stop

start --refuse-reload "pghotd.conf:7: promote.burst_ms: 0 is outside 1 to 10000"
expect 1 "a refused reload" "$pghotctl" reload
has err "^pghotctl: pghotd.conf:7: promote.burst_ms: 0 is outside 1 to 10000$" "the refusal comes through"
one_line "a refused reload"
empty out "a refused reload claims nothing"
stop

start --version 0.0.1
expect 0 "another version" "$pghotctl" status
has err "warning: the daemon is version 0.0.1" "another version is warned of"
one_line "another version"
stop
start --garbage
expect 1 "an answer that is none" "$pghotctl" status
has err "not what this version understands" "an answer that is none is told"
expect 1 "an answer that is none --json" "$pghotctl" status --json
stop
finish
