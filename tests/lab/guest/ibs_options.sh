# SPDX-License-Identifier: GPL-2.0-or-later
# Options changed live against the PMU's own record of what it was asked for; read by tests/ibs-options.sh.
# shellcheck shell=dash
# IBS_DEBUG and what begins with ibs_ come from lib.sh.
# shellcheck disable=SC1091,SC2154

. /lab/ibs_speed.sh

# asked KEY: what the last open on CPU 0 asked for, or what is programmed there now.
asked()
{
	ibs_value "$(grep '^cpu=0 ' "$IBS_DEBUG/asked")" "$1"
}

is_asked()
{
	[ $(($(asked "$1"))) -eq $(($2)) ] && [ "$(asked result)" -eq 0 ] && [ "$(asked active)" -eq 1 ]
}

is_free()
{
	[ "$(asked active)" -eq 0 ]
}

# becomes KEY VALUE NAME: a change is there when tune returns, but a daemon may do it a little later.
becomes()
{
	if wait_for 60 is_asked "$1" "$2"; then
		ok "$3"
	else
		not_ok "$3" "asked for: $(grep '^cpu=0 ' "$IBS_DEBUG/asked")"
	fi
}

# tune OPTION=VALUE. The daemon may be too slow for pghotctl on a busy host; how soon it answers isn't what is tested.
tune()
{
	wait_for 60 tuned "$1" || not_ok "tune $1" "$(tail -n 1 "$OUT/tune.txt")"
}

tuned()
{
	echo "$1" >> "$OUT/tune.txt"
	pghotctl tune "$1" >> "$OUT/tune.txt" 2>&1
}

# source_get KEY: of the source that is open, from a fresh answer.
source_get()
{
	wait_for 30 status_answers
	source_nr=0
	while source_name=$(json_get "$OUT/status.json" "sources.$source_nr.name"); do
		[ "$source_name" = ibs ] && break
		source_nr=$((source_nr + 1))
	done
	json_get "$OUT/status.json" "sources.$source_nr.$1"
}

# says WORDS NAME: status has these words as the source's reason.
says()
{
	check "$2" -n "$(source_get why | grep -F "$1")"
}

# machine NAME PARAMETERS...: the daemon anew on another machine; everything at its default but a period.
machine()
{
	[ -z "$PGHOTD_PID" ] || stop_pghotd
	machine_name=$1
	shift
	ibs_load "$@" || give_up "the module loads with $*" "$(dmesg | tail -n 1)"
	write_conf 'sources = [ "ibs" ];' 'ibs = { period = 100000; };'
	start_pghotd || finish
	note "$machine_name: $(grep '^cpu=0 ' "$IBS_DEBUG/asked")"
}

# A recent unit and kernel: each option has a field, and the fields are independent.
options_of_zen5()
{
	machine "Zen 5, kernel with the software filter" gen=zen5 swfilt=1 min_period=144 strict_period=1
	becomes config 0x90000 "zen5: ops and L3 misses only"
	becomes config1 0 "zen5: no latency threshold"
	becomes config2 0x1 "zen5: user_only is the software filter's field"
	becomes exclude 0x2 "zen5: and leaves the kernel out"
	becomes period 100000 "zen5: the period is the one of the file"
	check "zen5: there is nothing it can't" -z "$(source_get why)"
	tune ibs.user_only=false
	becomes config2 0 "zen5: user_only=false clears the filter"
	becomes exclude 0 "zen5: and excludes nothing"
	tune ibs.user_only=true
	becomes exclude 0x2 "zen5: user_only=true is back"
	tune ibs.count=cycles
	becomes config 0x10000 "zen5: count=cycles clears cnt_ctl"
	tune ibs.count=ops
	tune ibs.l3_miss_only=false
	becomes config 0x80000 "zen5: l3_miss_only=false clears its bit"
	tune ibs.l3_miss_only=true
	becomes config 0x90000 "zen5: and true sets it"
	tune ibs.latency_threshold=512
	becomes config1 0x200 "zen5: the latency threshold is in its field"
	check "zen5: status says which loads" -n "$(source_get detail | grep 'loads over 512 cycles')"
	opens=$(asked opens)
	tune ibs.period=200000
	becomes programmed 200000 "zen5: the period is changed while the event stays open"
	check "zen5: without another open" "$(asked opens)" -eq "$opens"
	tune ibs.latency_threshold=0
	becomes config1 0 "zen5: no threshold clears it"
	becomes period 200000 "zen5: a new open keeps the tuned period"
	pghotctl tune ibs.latency_threshold=100 > "$OUT/refused.txt" 2>&1
	note "latency_threshold=100: status $?, $(tail -n 1 "$OUT/refused.txt")"
	check "zen5: a threshold that no unit has leaves the events alone" $(($(asked config1))) -eq 0
}

# Zen 4 and Linux 6.12: no latency filter, no exclude bits. What can't be asked for is not, and status says so.
options_of_zen4()
{
	machine "Zen 4, Linux 6.12" gen=zen4
	becomes config 0x90000 "zen4: ops and L3 misses only"
	becomes exclude 0 "zen4: user_only asks the kernel for nothing"
	tune ibs.latency_threshold=512
	becomes config1 0 "zen4: a latency threshold isn't asked for"
	says "can't filter by latency" "zen4: status says that it can't filter by latency"
	tune ibs.latency_threshold=0
	check "zen4: then there is nothing left to say" -z "$(source_get why)"
}

# Zen 3: only the unit and its period.
options_of_zen3()
{
	machine "Zen 3" gen=zen3
	becomes config 0x80000 "zen3: L3 misses only isn't asked for"
	says "can't leave out what hits a cache" "zen3: status says that it can't leave out hits"
	tune ibs.l3_miss_only=false
	becomes config 0x80000 "zen3: without the wish it's the same event"
	check "zen3: and nothing to say" -z "$(source_get why)"
	tune ibs.count=cycles
	becomes config 0 "zen3: cycles"
}

# The unit: this machine has but one.
options_of_unit()
{
	opens=$(asked opens)
	tune ibs.pmu=ibs_mprof
	check "a unit that isn't there isn't opened" "$(source_get state) $(asked active)" = "failed 0"
	says ibs_mprof "status names it"
	note "ibs.pmu=ibs_mprof: $(source_get why)"
	tune ibs.pmu=ibs_op
	becomes active 1 "the unit that is there samples again"
	check "by another open" "$(asked opens)" -gt "$opens"
	check "status has it running" "$(source_get state)" = running
	# Others can have the unit meanwhile.
	wait_for 60 pghotctl pause > "$OUT/pause.txt" 2>&1
	wait_for 60 is_free
	check "paused, the unit is free" $? -eq 0
	check "status exits with 1" "$(wait_for 30 status_answers && echo "$STATUS_EXIT")" -eq 1
	wait_for 60 pghotctl resume >> "$OUT/pause.txt" 2>&1
	becomes active 1 "resumed, it samples again"
}

ibs_options()
{
	echo 0 > "$NUMAB"
	options_of_zen5
	options_of_zen4
	options_of_unit
	options_of_zen3
	stop_pghotd
	check "it ends with status 0" "$PGHOTD_STATUS" -eq 0
}

# ---- the budget --------------------------------------------------------------

# period_moves up|down FROM: by a quarter or more.
period_moves()
{
	if [ "$1" = up ]; then
		[ $(($(asked programmed) * 4)) -ge $(($2 * 5)) ]
	else
		[ $(($(asked programmed) * 5)) -le $(($2 * 4)) ]
	fi
}

# The period that is programmed is what status says; it may be changed between the two looks.
says_period()
{
	says_now=$(asked programmed)
	[ "$(source_get period)" = "$says_now" ] && [ "$(asked programmed)" = "$says_now" ]
}

ibs_budget()
{
	ibs_load || give_up "the module loads" "$(dmesg | tail -n 1)"
	# Load that has no end of misses and, being near, nothing to be moved.
	start_reader load 0 --total-mib 48 --hot-mib 24 --thp never
	run_reader load
	# Far too short for this budget: a sample costs the kernel 2 us by assumption, and the daemon more here.
	write_conf 'sources = [ "ibs" ];' 'ibs = { period = 1024; };' 'sampling = { overhead_percent = 4.0; };'
	start_pghotd || finish
	wait_for 60 says_period
	check "a fixed period is kept" "$(asked programmed)" -eq 1024
	if wait_for 90 paced_by 'costs more than the budget'; then
		ok "status says that it costs more than the budget"
	else
		not_ok "status says that it costs more than the budget" "$(source_get pace), cost $(source_get cost_ratio)"
	fi
	check "and it is kept all the same" "$(asked programmed)" -eq 1024
	cost=$(source_get cost_ratio)
	tune ibs.period=0
	if wait_for 90 period_moves up 1024; then
		ok "over the budget: the period grows"
	else
		not_ok "over the budget: the period grows" "$(asked programmed)"
	fi
	wait_for 60 within_budget 0.04
	after=$(source_get cost_ratio)
	check "until the cost is within it" "$(echo "$after" | awk '{ print ($1 <= 0.04) }')" -eq 1
	note "4 %: period $(asked programmed), cost $cost, then $after, pace: $(source_get pace)"
	if wait_for 60 says_period; then
		ok "status --json has the period that is programmed"
	else
		not_ok "status --json has the period that is programmed" "$(source_get period), not $(asked programmed)"
	fi
	pghotctl status > "$OUT/status.txt" 2>&1
	check "and the text has period and cost" -n "$(grep -E 'ibs: running.*period [0-9,]+, cost [0-9.]+%' "$OUT/status.txt")"
	before=$(asked programmed)
	tune sampling.overhead_percent=25
	if wait_for 60 period_moves down "$before"; then
		ok "room in the budget: the period shrinks"
	else
		not_ok "room in the budget: the period shrinks" "$(asked programmed) after $before: $(source_get pace)"
	fi
	note "25 %: period $(asked programmed), cost $(source_get cost_ratio), pace: $(source_get pace)"
	sleep 5
	before=$(asked programmed)
	tune sampling.overhead_percent=0.5
	if wait_for 90 period_moves up "$before"; then
		ok "a smaller budget: it grows again"
	else
		not_ok "a smaller budget: it grows again" "$(asked programmed) after $before: $(source_get pace)"
	fi
	note "0.5 %: period $(asked programmed), cost $(source_get cost_ratio), pace: $(source_get pace)"
	stop_pghotd
	check "the daemon ends with status 0" "$PGHOTD_STATUS" -eq 0
	kill -KILL "$(reader_pid load)"
}

paced_by()
{
	source_get pace | grep -qF "$1"
}

within_budget()
{
	source_get cost_ratio | awk -v most="$1" '{ exit !($1 <= most) }'
}
