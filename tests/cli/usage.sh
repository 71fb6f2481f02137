#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# What pghotctl says without a daemon: help, version, wrong usage.
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"

for help in --help -h help; do
	expect 0 "$help" "$pghotctl" $help
	empty err "$help goes to stdout"
	narrow "$help"
	has out "^Usage: pghotctl" "$help shows the usage"
done
for verb in status mode tune pause resume top explain heat events doctor metrics help reload; do
	has out "^  $verb " "the help has $verb"
done
has out "^  --save " "the help has --save"
expect 0 "help --json" "$pghotctl" help --json
is_json "help --json" '[v["name"] for v in d["verbs"]] == ["status", "mode", "tune", "pause", "resume", "top", "explain", "heat", "events", "doctor", "metrics", "help", "reload"]'

expect 0 "--version" "$pghotctl" --version
has out "^pghotctl [0-9]" "--version names program and version"
expect 0 "-V --json" "$pghotctl" -V --json
is_json "-V --json" 'd["version"]'

for args in --foo -x nosuchverb "" "status extra" "mode fast" "mode observe promote" "tune a=1 b=2" "tune a 1" "tune a 1 2" "tune =1" \
	--socket "help me" "pause 10m" "pause --for" "pause --for 10" "pause --for=0s" "pause --for=31d" "pause --for=1h30m" "resume --for=1m" "resume now" \
	"status --for 1m" "explain x" "explain 0" "explain 812:" "explain 812:xyz" "explain 812:0x" "explain 812:12345678901234567" "heat --pid x" "heat --pid 0" \
	"heat --pid -1" "heat --node x" "heat --node 1024" "events --lines 0" "events --lines x" "status -f" "top --by x" "top --count 0" "top --interval 0"; do
	# Word by word, but for the empty verb.
	if [ -n "$args" ]; then
		# shellcheck disable=SC2086
		expect 64 "\"$args\"" "$pghotctl" $args
	else
		expect 64 "an empty verb" "$pghotctl" ""
	fi
	one_line "\"$args\""
	has err "(try pghotctl --help)" "\"$args\" points to the help"
	empty out "\"$args\" writes nothing to stdout"
done

hint() { # WORDS, PATTERN
	# shellcheck disable=SC2086
	expect 64 "$1" "$pghotctl" $1
	has err "$2" "\"$1\" is told what was meant"
}
hint "tune promote.burst_ms 50" "pghotctl tune 'promote.burst_ms=50'"
hint promote "did you mean pghotctl mode promote?"
hint observe "did you mean pghotctl mode observe?"
hint stauts "did you mean status?"
hint tun "did you mean tune?"
hint puase "did you mean pause?"
hint modes "did you mean mode?"
hint "set mode observe" "did you mean pghotctl tune KEY=VALUE?"
hint restart "did you mean systemctl restart pghotd?"
hint "pause 10m" "usage: pghotctl pause \[--for TIME\]"
hint "top cgroup" "usage: pghotctl top .*\[--by process|cgroup|region\]"
hint "events -n 5" "no such option: -n; events has .*\[--lines N\]"
hint "tune mode = observe" "write it as one word: pghotctl tune 'mode=observe'"
hint "tune promote.burst_ms=50 promote.stall_ms=9" "one option at a time"
expect 3 "a socket that is none" "$pghotctl" --socket /etc/passwd status
has err "/etc/passwd is no socket" "it says so"
expect 64 "a word like no verb" "$pghotctl" nosuchverb
if grep -q "did you mean" "$tmp/err"; then not_ok "a word like no verb: no guess"; else ok "a word like no verb: no guess"; fi

if [ -w /dev/full ]; then
	# shellcheck disable=SC2016 # the inner shell expands it
	expect 1 "a full disk" sh -c '"$0" --help >/dev/full' "$pghotctl"
	has err "cannot write the answer" "a full disk is told"
else
	skip "a full disk" "there is no /dev/full"
fi
finish
