# SPDX-License-Identifier: GPL-2.0-or-later
# Several workloads at a time, each with memory of another kind; read by the tests of what is left alone.
# shellcheck shell=dash disable=SC2154

KINDS=

# start_kind NAME GROUP ARGUMENTS...: a hotset in the control group GROUP below the root ("" for the test's own).
start_kind()
{
	kind=$1
	kind_group=$2
	shift 2
	rm -f "/tmp/$kind.txt"
	(
		[ -z "$kind_group" ] || echo 0 > "/sys/fs/cgroup/$kind_group/cgroup.procs"
		exec hotset --report "/tmp/$kind.txt" --fill-node 1 --report-ms 2000 "$@"
	) > "$OUT/$kind.txt" 2>&1 &
	eval "PID_$kind=$!"
	KINDS="$KINDS $kind"
	wait_for 90 test -s "/tmp/$kind.txt" || give_up "$kind starts" "$(tail -n 1 "$OUT/$kind.txt")"
}

# kind_get NAME KEY: of its last report.
kind_get()
{
	tail -n 1 "/tmp/$1.txt" | tr ' ' '\n' | sed -n "s/^$2=//p"
}

# kind_asked NAME: its last report is one that it made from now on.
kind_asked()
{
	asked_before=$(grep -c '^final' "/tmp/$1.txt")
	eval "kill -USR1 \$PID_$1" && wait_for 60 kind_answered "$1"
}

kind_answered()
{
	[ "$(grep -c '^final' "/tmp/$1.txt")" -gt "$asked_before" ]
}

# kind_near NAME PERCENT, for wait_for: so much of its hot pages is near.
kind_near()
{
	[ "$(($(kind_get "$1" hot_near) * 100))" -ge "$(($(kind_get "$1" hot_total) * $2))" ]
}

# is_left REASON BYTES, for wait_for: at least so many hot bytes were left for it.
is_left()
{
	left_now=$(status_get "left_alone.$1")
	[ "${left_now:-0}" -ge "$2" ]
}

# check_far NAME: no page of it has moved.
check_far()
{
	kind_asked "$1" || not_ok "$1: it reports a placement" "no answer to SIGUSR1 within 60 s"
	check "$1: no page has moved" "$(kind_get "$1" hot_near)/$(kind_get "$1" cold_near)" = "0/0"
}

# check_near NAME SECONDS
check_near()
{
	if wait_for "$2" kind_near "$1" 95; then
		ok "$1: 95 % of the hot pages come near"
	else
		not_ok "$1: 95 % of the hot pages come near" "$(kind_get "$1" hot_near) of $(kind_get "$1" hot_total)"
	fi
}

# check_left REASON BYTES SECONDS
check_left()
{
	if wait_for "$3" is_left "$1" "$2"; then
		ok "status counts what is left alone for $1"
	else
		not_ok "status counts what is left alone for $1" "'$left_now' bytes, not $2"
	fi
}

# near_pages NAME...: pages of these that are near, hot and cold.
near_pages()
{
	near_sum=0
	for near_kind in "$@"; do
		kind_asked "$near_kind"
		near_sum=$((near_sum + $(kind_get "$near_kind" hot_near) + $(kind_get "$near_kind" cold_near)))
	done
	echo $near_sum
}

stop_kinds()
{
	for kind in $KINDS; do
		eval "kind_pid=\$PID_$kind"
		kill -TERM "$kind_pid" 2>/dev/null
		wait "$kind_pid"
		cp "/tmp/$kind.txt" "$OUT/$kind-report.txt"
	done
	KINDS=
}
