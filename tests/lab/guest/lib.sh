# SPDX-License-Identifier: GPL-2.0-or-later
# What a guest test has at hand. A test is read by sh after this file, in /tmp, with
# TEST set to its name and OUT to the folder that goes back to the host.
# shellcheck shell=dash
# What is set here and not used here is for the tests, and so are arguments.
# shellcheck disable=SC2034,SC2119,SC2120

PGHOTD_CONF=/etc/pghotd.conf
PGHOTD_PID=
FAILED=0
NUMAB=/proc/sys/kernel/numa_balancing
RATE=/proc/sys/kernel/numa_balancing_promote_rate_limit_MBps

event()
{
	printf '%s\n' "$*" > /dev/ttyS1
}

# ok NAME, not_ok NAME WHY, skip NAME WHY: one line per case.
ok()
{
	event "ok $TEST: $1"
}

not_ok()
{
	FAILED=$((FAILED + 1))
	event "not ok $TEST: $1 - ${2:-no reason given}"
}

skip()
{
	event "skip $TEST: $1 - ${2:-no reason given}"
}

note()
{
	event "note $TEST: $*"
}

live()
{
	event "live $*"
}

# finish: the test's end. Its verdicts are its lines; the status says that it got here.
finish()
{
	exit 0
}

# give_up NAME WHY: what follows would make no sense.
give_up()
{
	not_ok "$@"
	finish
}

# check NAME CONDITION...: a case whose verdict is a test(1) expression.
check()
{
	check_name=$1
	shift
	if test "$@"; then
		ok "$check_name"
	else
		not_ok "$check_name" "it is not so that: $*"
	fi
}

vmstat()
{
	awk -v key="$1" '$1 == key { print $2; found = 1 } END { if (!found) print 0 }' /proc/vmstat
}

# Guest time in ms since boot; it is read without a process, since many loops do.
now_ms()
{
	read -r up_sec _ < /proc/uptime
	echo "${up_sec%.*}${up_sec#*.}0"
}

# wait_for SECONDS COMMAND...: until the command succeeds; fails when it never does. A look that took longer counts as
# half a second: then the host had other work, and the clock ran on without the guest. So there are two looks for each
# second, however slow the host. The command may itself wait for something.
wait_for()
{
	local wait_left=$(($1 * 1000)) wait_begin
	wait_begin=$(now_ms)
	shift
	until "$@"; do
		[ "$wait_left" -le 0 ] && return 1
		usleep 100000
		count_look 500
	done
}

# count_look MOST: takes off WAIT_LEFT what has passed since WAIT_BEGIN, but no more than MOST ms.
count_look()
{
	wait_now=$(now_ms)
	wait_took=$((wait_now - wait_begin))
	wait_begin=$wait_now
	wait_left=$((wait_left - (wait_took < $1 ? wait_took : $1)))
}

gone()
{
	[ ! -d "/proc/$1" ] || grep -q '^State:.Z' "/proc/$1/status" 2>/dev/null
}

# json_get FILE KEY: a number, string or word of a JSON file; KEY may be a.b.c.
json_get()
{
	awk -v want="$2" '
	function value(path,    key, n) {
		if (text == "{") {
			next_token()
			while (text != "}" && text != "") {
				key = substr(text, 2, length(text) - 2)
				next_token()		# the colon
				next_token()
				value(path == "" ? key : path "." key)
				if (text == ",")
					next_token()
			}
		} else if (text == "[") {
			next_token()
			n = 0
			while (text != "]" && text != "") {
				value(path "." n++)
				if (text == ",")
					next_token()
			}
		} else if (path == want) {
			if (substr(text, 1, 1) == "\"")
				text = substr(text, 2, length(text) - 2)
			print text
			found = 1
		}
		next_token()
	}
	function next_token() {
		if (match(all, /^[ \t\r\n]+/))
			all = substr(all, RLENGTH + 1)
		if (!match(all, /^"([^"\\]|\\.)*"/) && !match(all, /^[][{}:,]/) &&
		    !match(all, /^[^] \t\r\n{}:,"[]+/)) {
			text = all = ""
			return
		}
		text = substr(all, 1, RLENGTH)
		all = substr(all, RLENGTH + 1)
	}
	{ all = all $0 "\n" }
	END { next_token(); value(""); exit !found }' "$1"
}

# ---- the workload ------------------------------------------------------------

# start_hotset ARGUMENTS...: returns when the memory is filled and reports come in.
start_hotset()
{
	rm -f /tmp/hotset.txt
	hotset --report /tmp/hotset.txt "$@" > "$OUT/hotset.txt" 2>&1 &
	HOTSET_PID=$!
	wait_for 90 test -s /tmp/hotset.txt ||
		give_up "the workload starts" "$(tail -n 1 "$OUT/hotset.txt")"
}

# fast_scan: a round of hint faults about once a second for what starts after this. A
# task takes its period when it starts; at the default there are ten seconds between
# later rounds, too few of them for a test on a machine that has other work.
fast_scan()
{
	scan=/sys/kernel/debug/sched/numa_balancing
	echo 100 > $scan/scan_period_min_ms
	echo 1000 > $scan/scan_period_max_ms
	echo 100 > $scan/scan_delay_ms
}

# place: a fresh placement into HOT_TOTAL HOT_NEAR HOT_ERR COLD_TOTAL COLD_NEAR COLD_ERR,
# and the reads per second into SPEED.
place()
{
	finals=$(grep -c '^final' /tmp/hotset.txt)
	kill -USR1 "$HOTSET_PID" || return 1
	wait_for 60 more_finals "$finals" || return 1
	take_place "$(grep '^final' /tmp/hotset.txt | tail -n 1)"
}

more_finals()
{
	[ "$(grep -c '^final' /tmp/hotset.txt)" -gt "$1" ]
}

take_place()
{
	for word in $1; do
		case $word in
		hot_total=*) HOT_TOTAL=${word#*=} ;;
		hot_near=*) HOT_NEAR=${word#*=} ;;
		hot_err=*) HOT_ERR=${word#*=} ;;
		cold_total=*) COLD_TOTAL=${word#*=} ;;
		cold_near=*) COLD_NEAR=${word#*=} ;;
		cold_err=*) COLD_ERR=${word#*=} ;;
		accesses_per_sec=*) SPEED=${word#*=} ;;
		esac
	done
}

# The same from the last periodic report, which costs nothing.
last_place()
{
	take_place "$(tail -n 1 /tmp/hotset.txt)"
}

# hot_near_at_least PERCENT, for wait_for: from the last report.
hot_near_at_least()
{
	last_place
	[ $((HOT_NEAR * 100)) -ge $((HOT_TOTAL * $1)) ]
}

# percent PART WHOLE: with one decimal.
percent()
{
	awk -v a="$1" -v b="$2" 'BEGIN { printf "%.1f", b ? a * 100 / b : 0 }'
}

stop_hotset()
{
	kill -TERM "$HOTSET_PID"
	wait "$HOTSET_PID"
	HOTSET_STATUS=$?
	cp /tmp/hotset.txt "$OUT/hotset-report.txt"
}

# ---- the daemon --------------------------------------------------------------

# write_conf LINES...: the configuration file, as an administrator would leave it.
write_conf()
{
	printf '%s\n' "$@" > "$PGHOTD_CONF"
	chmod 644 "$PGHOTD_CONF"
}

# promote_conf [LINES...]: hint faults feed the daemon, which sets what they need.
promote_conf()
{
	write_conf 'mode = "promote";' 'sources = [ "hint_faults" ];' \
		'hint_faults = { manage_sysctls = true; };' "$@"
}

# patiently COMMAND...: again, up to ten times, when all that it says is that the daemon took too long to answer. How soon it
# answers tells of the host.
patiently()
{
	patience=10
	while :; do
		"$@" > /tmp/patiently.out 2> /tmp/patiently.err
		patiently_status=$?
		patience=$((patience - 1))
		[ $patience -gt 0 ] || break
		grep -q 'does not answer within' /tmp/patiently.err || break
	done
	cat /tmp/patiently.out
	cat /tmp/patiently.err >&2
	return "$patiently_status"
}

pghotctl()
{
	patiently command pghotctl "$@"
}

status_answers()
{
	pghotctl status --json > "$OUT/status.json" 2> "$OUT/status.err"
	STATUS_EXIT=$?
	[ "$STATUS_EXIT" -le 2 ] && [ -s "$OUT/status.json" ]
}

answers_or_gone()
{
	status_answers || gone "$PGHOTD_PID"
}

# start_pghotd ARGUMENTS...: until status answers; fails with the reason as a case.
start_pghotd()
{
	pghotd -c "$PGHOTD_CONF" --foreground "$@" >> "$OUT/pghotd.log" 2>&1 &
	PGHOTD_PID=$!
	wait_for 60 answers_or_gone
	if gone "$PGHOTD_PID"; then
		wait "$PGHOTD_PID"
		not_ok "pghotd starts" "status $?: $(tail -n 1 "$OUT/pghotd.log")"
		return 1
	fi
	if ! status_answers; then
		not_ok "pghotctl answers" "nothing within 60 s: $(tail -n 1 "$OUT/status.err")"
		return 1
	fi
}

# status_get KEY: from a fresh answer of the daemon.
status_get()
{
	status_answers && json_get "$OUT/status.json" "$1"
}

# settle: until the daemon has promoted nothing more for two seconds; in at most 30 such times.
settle()
{
	settle_left=30
	settle_now=$(status_get promoted_pages)
	while [ $settle_left -gt 0 ]; do
		settle_before=$settle_now
		sleep 2
		settle_now=$(status_get promoted_pages)
		[ -n "$settle_now" ] && [ "$settle_now" = "$settle_before" ] && return 0
		settle_left=$((settle_left - 1))
	done
	return 1
}

# identity: what was decoded into TOTAL, what became of it into ENDED; succeeds when each sample has ended in one counter.
# Some are under way while the workload runs, so stop it first, and ask until it succeeds.
identity()
{
	status_answers || return 1
	TOTAL=$(json_get "$OUT/status.json" counters.total)
	ENDED=$(grep -oE '"(useful|dropped_[a-z_]+|discarded_[a-z_]+)": *[0-9]+' "$OUT/status.json" |
		sed 's/.*: *//' | awk '{ s += $1 } END { print s + 0 }')
	[ "$TOTAL" -eq "$ENDED" ]
}

# check_identity: with the workload at rest.
check_identity()
{
	if wait_for 60 identity; then
		ok "every sample ended in one counter"
	else
		not_ok "every sample ended in one counter" "$TOTAL against $ENDED"
	fi
	note "total $TOTAL, useful + dropped + discarded $ENDED"
}

# ---- IBS, on a machine that has it (see ibs/README.md) ------------------------

IBS_DEBUG=/sys/kernel/debug/pghot_ibs
MAX_RATE=/proc/sys/kernel/perf_event_max_sample_rate

# ibs_load [PARAMETER=VALUE...]: the module as the machine has it, or with other
# parameters added, which only this test sees. The PMU's name lands in IBS_PMU.
ibs_load()
{
	ibs_words="$(cat /lab/ibs/parameters) $*"
	if [ "$(cat /run/ibs-parameters 2>/dev/null)" != "$ibs_words" ]; then
		rm -f /run/ibs-parameters
		if [ -d /sys/module/pghot_ibs ]; then
			rmmod pghot_ibs || return 1
		fi
		# shellcheck disable=SC2086
		insmod /lab/ibs/pghot_ibs.ko $ibs_words || return 1
		echo "$ibs_words" > /run/ibs-parameters
	fi
	IBS_PMU=$(sed -n 's/^name=\([^ ]*\) .*/\1/p' $IBS_DEBUG/setup)
}

# ibs_truth NODE KEY: a counter of the plugin, for instance user_loads.
ibs_truth()
{
	ibs_value "$(grep "^node=$1 " $IBS_DEBUG/truth)" "$2"
}

# ibs_value LINE KEY: a KEY=VALUE word of a line, 0 when there is none.
ibs_value()
{
	for ibs_word in $1; do
		case $ibs_word in
		"$2="*)
			echo "${ibs_word#*=}"
			return
			;;
		esac
	done
	echo 0
}

if [ -f /lab/ibs/pghot_ibs.ko ]; then
	ibs_load || give_up "the IBS module loads" "$(dmesg | tail -n 1)"
fi

# counts_agree: the daemon has promoted as many pages as came near since there were BEFORE. Into AFTER and COUNTED.
counts_agree()
{
	place || return 1
	after=$((HOT_NEAR + COLD_NEAR))
	counted=$(status_get promoted_pages)
	[ "$counted" = $((after - before)) ]
}

# promote_job SECONDS: the whole job, from all pages far to the placement afterwards.
promote_job()
{
	echo 0 > "$NUMAB"
	kernel_promoted=$(vmstat pgpromote_success)
	kernel_migrated=$(vmstat numa_pages_migrated)
	promote_conf
	start_hotset --total-mib 128 --hot-mib 32 --fill-node 1 --thp never
	sleep 2
	place || give_up "the workload reports a placement" "no answer to SIGUSR1 within 10 s"
	before=$((HOT_NEAR + COLD_NEAR))
	check "all pages are far at first" "$before" -eq 0

	begin=$(now_ms)
	start_pghotd || finish
	if wait_for "$1" hot_near_at_least 95; then
		ok "95 % of the hot pages are near within $1 s"
	else
		not_ok "95 % of the hot pages are near within $1 s" \
			"$(percent "$HOT_NEAR" "$HOT_TOTAL") % of $HOT_TOTAL are"
	fi
	note "$HOT_NEAR of $HOT_TOTAL hot pages near after $(($(now_ms) - begin)) ms"

	settle || not_ok "promotion comes to rest" "still promoting a minute later"
	# The kernel comes by the rest of the hot pages when it likes, also between the two looks.
	if wait_for 30 counts_agree; then
		ok "promoted_pages is what the placement shows"
	else
		not_ok "promoted_pages is what the placement shows" "$counted pages, $((after - before)) came near"
	fi
	check "at most 5 % of the cold pages are near" $((COLD_NEAR * 100)) -le $((COLD_TOTAL * 5))
	check "promoted_bytes is that in bytes" "$(json_get "$OUT/status.json" promoted_bytes)" = $((counted * 4096))
	check "status exits with 0" "$STATUS_EXIT" -eq 0
	check "the kernel promoted nothing itself" "$(vmstat pgpromote_success)" -eq "$kernel_promoted"
	check "the kernel's balancing moved nothing" \
		"$(vmstat numa_pages_migrated)" -eq "$kernel_migrated"
	note "hot near $(percent "$HOT_NEAR" "$HOT_TOTAL") %, cold near" \
		"$(percent "$COLD_NEAR" "$COLD_TOTAL") %, promoted_pages $counted"
	stop_pghotd
	check "it ends with status 0" "$PGHOTD_STATUS" -eq 0
	stop_hotset
}

# kill_pghotd: as the kernel would when memory is short.
kill_pghotd()
{
	kill -KILL "$PGHOTD_PID"
	wait "$PGHOTD_PID" 2>/dev/null
	PGHOTD_PID=
}

# stop_pghotd: its exit status in PGHOTD_STATUS, the time it took in STOP_MS, in which a look that took longer counts as
# 200 ms, see wait_for.
stop_pghotd()
{
	wait_left=60000
	wait_begin=$(now_ms)
	kill -TERM "$PGHOTD_PID" 2>/dev/null
	until gone "$PGHOTD_PID"; do
		[ "$wait_left" -le 0 ] && kill -KILL "$PGHOTD_PID"
		usleep 50000
		count_look 200
	done
	STOP_MS=$((60000 - wait_left))
	wait "$PGHOTD_PID"
	PGHOTD_STATUS=$?
	PGHOTD_PID=
}
