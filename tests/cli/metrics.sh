#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Metrics, and the alerts and the dashboard that go by their names: metrics.sh PGHOTCTL FAKE_DAEMON SOURCE_ROOT.
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"

source=$3
rules=$source/conf/prometheus/pghotd.rules.yml
dashboard=$source/conf/grafana/pghotd.json
checker=$(dirname "$0")/metrics_check.py

start --state promoting
expect 0 "metrics" "$pghotctl" metrics
cp "$tmp/out" "$tmp/metrics"
empty err "nothing to warn of"
expect 0 "it is OpenMetrics" python3 "$checker" open "$tmp/metrics"
expect 0 "every counter is there" python3 "$checker" table "$tmp/metrics" "$source/include/stats.def"
expect 0 "alerts and dashboard name what there is" python3 "$checker" names "$tmp/metrics" "$rules" "$dashboard"
cp "$tmp/metrics" "$tmp/out"
has out '^pghotd_up 1$' "it is up"
has out '^pghotd_state{state="promoting"} 1$' "the state is there"
has out '^pghotd_node_room_bytes{node="0",tier="0",fast="true"} [1-9]' "nodes are there"
has out '^pghotd_move_outcome_pages_total{from="1",to="0",size="huge",result="no memory"} 512$' "outcomes are there"
has out '^pghotd_move_seconds_total 0.000000000$' "times are seconds"
has out '^pghotd_left_alone_bytes{reason="shared"} 3145728$' "what is left alone is there"
if grep -q redis "$tmp/out"; then not_ok "no process is named"; else ok "no process is named"; fi

# What the check must not let through.
bad() { # WHAT, SED EXPRESSION
	sed "$2" "$tmp/metrics" >"$tmp/bad"
	expect 1 "the check sees $1" python3 "$checker" open "$tmp/bad"
}
bad "a missing end" "/# EOF/d"
bad "a counter without _total" 's/^pghotd_samples_total/pghotd_samples/'
bad "a unit that the name doesn't end in" 's/^# UNIT pghotd_samples samples/# UNIT pghotd_samples seconds/'
bad "a sample twice" '/^pghotd_up 1/p'
bad "a quotation mark in a label" 's/result="no memory"/result="no" memory"/'
sed 's/pghotd_samples_total/pghotd_sample_total/' "$rules" >"$tmp/rules"
expect 1 "the check sees a name that isn't there" python3 "$checker" names "$tmp/metrics" "$tmp/rules"

expect 0 "metrics --textfile" "$pghotctl" metrics --textfile
has out '^# TYPE pghotd_samples_total counter$' "a family of the older format has _total"
if grep -q '^# UNIT\|^# EOF' "$tmp/out"; then not_ok "the older format has neither UNIT nor EOF"; else ok "the older format has neither UNIT nor EOF"; fi
if command -v promtool >/dev/null; then
	cp "$tmp/out" "$tmp/textfile"
	# shellcheck disable=SC2016 # the inner shell expands it
	expect 0 "promtool check metrics" sh -c 'promtool check metrics <"$0"' "$tmp/textfile"
	empty out "promtool has nothing to say"
	empty err "promtool has nothing to complain of"
	expect 0 "promtool check rules" promtool check rules "$rules"
else
	skip "promtool check metrics, promtool check rules" "promtool is not installed (package prometheus)"
fi
expect 0 "the dashboard is JSON" python3 -c 'import json, sys
panels = json.load(open(sys.argv[1]))["panels"]
assert len(panels) > 8 and all(panel["targets"] for panel in panels)' "$dashboard"

expect 64 "metrics --json" "$pghotctl" metrics --json
one_line "metrics --json"
stop
expect 3 "metrics without a daemon" "$pghotctl" metrics
has out '^pghotd_up 0$' "it is not up"
cp "$tmp/out" "$tmp/metrics"
expect 0 "and that is OpenMetrics" python3 "$checker" open "$tmp/metrics"
start --garbage
expect 1 "an answer that is none" "$pghotctl" metrics
empty out "an answer that is none gives no metrics"
stop
finish
