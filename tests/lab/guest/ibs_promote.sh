# SPDX-License-Identifier: GPL-2.0-or-later
# The job by hardware samples alone, for the PMU that the machine has; the tests of each PMU read this file.
# shellcheck shell=dash
# shellcheck disable=SC1091,SC2034,SC2086

. /lab/ibs_speed.sh

IBS_READER="--total-mib 128 --hot-mib 32 --thp never"
# The same reads; what it doesn't read is only filled, which takes time.
IBS_NEAR_READER="--total-mib 40 --hot-mib 32 --thp never"
IBS_HOLD=/sys/kernel/debug/pghot_ibs/hold

# bring_near PER-MILLE SECONDS: until so many of the hot pages are near. It asks seldom, a look at all pages takes long
# here.
bring_near()
{
	near_end=$(($(now_ms) + $2 * 1000))
	while :; do
		place
		[ $((HOT_NEAR * 1000)) -ge $((HOT_TOTAL * $1)) ] && return 0
		[ "$(now_ms)" -ge "$near_end" ] && return 1
		sleep 3
	done
}

# ibs_row: "STATE PERIOD COST PACE" of the source that is open.
ibs_row()
{
	status_answers && awk -F '"' '/"state":/ { s = $4 } /"period":/ { p = $3 } /"cost_ratio":/ { c = $3 }
		/"pace":/ && p { gsub(/[^0-9]/, "", p); gsub(/[^0-9.e-]/, "", c); print s, p, c, $4; exit }' "$OUT/status.json"
}

# The budget has found what it needs: the period neither grew by a quarter nor shrank by a fifth for ten seconds.
pace_is_kept()
{
	pace_before=$(ibs_value "$(grep '^cpu=0 ' "$IBS_DEBUG/asked")" programmed)
	sleep 10
	pace_now=$(ibs_value "$(grep '^cpu=0 ' "$IBS_DEBUG/asked")" programmed)
	[ $((pace_now * 4)) -le $((pace_before * 5)) ] && [ $((pace_now * 5)) -ge $((pace_before * 4)) ]
}

# Of the placement that was asked for last.
counts_all()
{
	status_answers && [ "$(json_get "$OUT/status.json" promoted_pages)" -ge $((HOT_NEAR + COLD_NEAR)) ]
}

# without_pghotd: as if it weren't there: nothing is sampled, none of its threads runs.
without_pghotd()
{
	kill -STOP "$PGHOTD_PID"
	echo 1 > "$IBS_HOLD"
}

with_pghotd()
{
	echo 0 > "$IBS_HOLD"
	kill -CONT "$PGHOTD_PID"
	usleep 300000
}

# kept WITH WITHOUT: speed of both readers together in turns of the one kind against the mean of the turns of the other
# before and after, in hundredths, sorted. A speed is the reads for what the emulator worked for their CPU, and that is counted in gaps
# between misses as long as they are just then: a second of the host may be worth half of the next, and emulation twice as
# slow when something else has its caches. Time that goes to samples has no miss of a reader in it, so it counts in full.
kept()
{
	awk -v with="$1" -v without="$2" '$1 == with && $6 { between = ($2 + $4) / $6 * $7 }
		$1 == without && $6 {
			speed = ($2 + $4) / $6 * $7
			if (between && before)
				printf "%.0f\n", between / ((before + speed) / 2) * 100
			before = speed; between = 0
		}' "$OUT/turns.txt" | sort -n
}

# Both readers do the same, the one with all its memory near, the other one's are where pghotd has put them.
compare_speeds()
{
	run_reader near
	sleep 1
	without_pghotd
	turn without near tiered
	turn_nr=0
	# On a host with much else to do the turns are far apart, and a median of 15 is a matter of luck: then it is one of more.
	while [ "$turn_nr" -lt 60 ]; do
		with_pghotd
		turn with near tiered
		without_pghotd
		usleep 100000
		turn without near tiered
		turn_nr=$((turn_nr + 1))
		[ $((turn_nr % 15)) -eq 0 ] || continue
		beside=$(ratios with b | middle)
		kept=$(kept with without | middle)
		[ "$beside" -ge 90 ] && [ $((beside * kept)) -ge 9000 ] && break
	done
	with_pghotd
	far_speed=$(ratios far b | middle)
	note "$turn_nr turns"
	note "all far: $far_speed % of the speed with all near, median of turns from $(ratios far b | spread)"
	note "promoted: $beside % of the speed with all near, median of turns from $(ratios with b | spread)"
	note "both readers with pghotd: $kept % of their speed without it, median of turns from $(kept with without | spread)"
	check "no tiering: all far is less than half as fast as all near" "$far_speed" -lt 50
	check "promoted, it has 90 % of the speed with all near" "$beside" -ge 90
	check "and 90 % of the speed with all near and no pghotd" $((beside * kept)) -ge 9000
}

ibs_promote()
{
	echo 0 > "$NUMAB"
	rate_before=$(cat $MAX_RATE)
	# the readers have CPU 0 for themselves
	taskset -p -c 1 $$ > /dev/null
	faults=$(vmstat numa_hint_faults)
	updates=$(vmstat numa_pte_updates)
	kernel_promoted=$(vmstat pgpromote_success)
	kernel_migrated=$(vmstat numa_pages_migrated)
	# The window is 15 s, not 5, since on a host with other work this machine is slower by as much.
	write_conf 'mode = "promote";' 'sources = [ "ibs" ];' "ibs = { pmu = \"$IBS_PMU\"; period = $1; };" \
		'promote = { freq_window_ms = 15000; };'
	start_reader near 0 $IBS_NEAR_READER
	start_reader tiered 1 $IBS_READER
	# place and what builds on it ask this one
	HOTSET_PID=$(reader_pid tiered)
	ln -sf /tmp/reader-tiered.txt /tmp/hotset.txt
	run_reader near
	run_reader tiered
	sleep 1
	turns far 7 near tiered
	pause_reader near
	place
	check "all pages are far at first" "$((HOT_NEAR + COLD_NEAR))" -eq 0
	start_pghotd || finish
	begin=$(now_ms)
	if bring_near 950 "$2"; then
		ok "95 % of the hot pages come near"
	else
		not_ok "95 % of the hot pages come near" "$(percent "$HOT_NEAR" "$HOT_TOTAL") % of $HOT_TOTAL after $2 s"
	fi
	note "$(percent "$HOT_NEAR" "$HOT_TOTAL") % near after $((($(now_ms) - begin) / 1000)) s"
	# the last few cost more than their share: each is three times as slow
	bring_near 995 180
	note "$(percent "$HOT_NEAR" "$HOT_TOTAL") % near after $((($(now_ms) - begin) / 1000)) s"
	check "at most 5 % of the cold pages are near" $((COLD_NEAR * 100)) -le $((COLD_TOTAL * 5))
	# how soon it answers on a busy host isn't what is tested
	wait_for 60 status_answers
	wait_for 30 counts_all
	check "promoted_pages is no less than the placement shows" \
		"$(json_get "$OUT/status.json" promoted_pages)" -ge $((HOT_NEAR + COLD_NEAR))
	check "status exits with 0" "$STATUS_EXIT" -eq 0
	check "no hint fault was needed" "$(vmstat numa_hint_faults) $(vmstat numa_pte_updates)" = "$faults $updates"
	check "the kernel promoted nothing" "$(vmstat pgpromote_success) $(vmstat numa_pages_migrated)" = \
		"$kernel_promoted $kernel_migrated"

	# From here on by budget, at the default, as it would be without the setting.
	wait_for 60 pghotctl tune ibs.period=0 > "$OUT/tune.txt" 2>&1
	check "the period is left to the budget" $? -eq 0
	wait_for 30 pace_is_kept
	note "state, period, cost, pace: $(ibs_row)"
	# What a sample costs is known by now: the kernel was told, and has lowered its rate. The period is held at what came
	# of it, since to the budget every turn without pghotd looks like a quiet time with room for more samples.
	kept_period=$(ibs_value "$(grep '^cpu=0 ' "$IBS_DEBUG/asked")" programmed)
	check "the kernel told what a sample takes" "$(cat $MAX_RATE)" -lt "$rate_before"
	wait_for 60 pghotctl tune "ibs.period=$kept_period" >> "$OUT/tune.txt" 2>&1
	if wait_for 30 grep -q "^cpu=0 .*programmed=$kept_period " "$IBS_DEBUG/asked"; then
		ok "the budget's period is held"
	else
		not_ok "the budget's period is held" "not $kept_period: $(grep '^cpu=0 ' "$IBS_DEBUG/asked")"
	fi
	compare_speeds
	note "state, period, cost, pace: $(ibs_row); $(grep '^cpu=0' "$IBS_DEBUG/stats")"

	# An option changed live shows in what the PMU was asked for.
	wait_for 60 pghotctl tune ibs.period=524288 >> "$OUT/tune.txt" 2>&1
	check "the period is changed live" $? -eq 0
	wait_for 30 grep -q 'programmed=524288' "$IBS_DEBUG/asked"
	check "and the PMU has it" $? -eq 0
	echo 1 > "$IBS_HOLD"
	check_identity
	stop_pghotd
	check "it ends with status 0" "$PGHOTD_STATUS" -eq 0
	kill -TERM "$(reader_pid near)"
	stop_hotset
	cp "$IBS_DEBUG/stats" "$IBS_DEBUG/asked" "$OUT"
	echo "$rate_before" > $MAX_RATE
}
