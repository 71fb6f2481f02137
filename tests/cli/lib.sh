# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=sh
# What the tests of pghotctl share. A test is called with the two programs: test.sh PGHOTCTL FAKE_DAEMON. It closes with
# "N passed, N failed, N skipped"; exit 0, 1, or 77 when nothing but skips.

# shellcheck disable=SC2034 # the tests use it
pghotctl=$1
fake_daemon=$2
passed=0
failed=0
skipped=0
daemon=
others=
# Another user has to get to what is made here, whatever the caller lets others do.
umask 022
tmp=$(mktemp -d "${TMPDIR:-/tmp}/pghot-cli-XXXXXX") || exit 1
# As /run is.
chmod 755 "$tmp"
socket=$tmp/run/bus
PGHOTCTL_SOCKET=$socket
LC_ALL=C
export PGHOTCTL_SOCKET LC_ALL
unset NO_COLOR

stop() {
	for pid in $daemon $others; do
		kill -CONT "$pid" 2>/dev/null
		kill "$pid" 2>/dev/null
		wait "$pid" 2>/dev/null
	done
	daemon=
	others=
}

cleanup() {
	stop
	rm -rf "$tmp"
}
trap cleanup EXIT
trap 'exit 1' INT TERM HUP

# Runs the fake daemon and waits until it says that it is ready: by what it writes, not by time.
launch() {
	rm -f "$tmp/ready"
	mkfifo "$tmp/ready"
	"$fake_daemon" --socket "$socket" "$@" >"$tmp/ready" 2>>"$tmp/log" &
	launched=$!
	read -r line <"$tmp/ready"
	if [ "$line" != ready ]; then
		cat "$tmp/log" >&2
		echo "not ok: the fake daemon does not start"
		exit 1
	fi
}

start() {
	: >"$tmp/log"
	launch "$@"
	daemon=$launched
}

start_other() {
	launch "$@"
	others="$others $launched"
}

# poll TENTHS COMMAND...: until it is so, for so many tenths of a second.
poll() {
	tries=$1
	shift
	until "$@" 2>/dev/null; do
		tries=$((tries - 1))
		[ $tries -gt 0 ] || return 1
		sleep 0.1
	done
}

ok() {
	passed=$((passed + 1))
	echo "ok: $1"
}

not_ok() {
	failed=$((failed + 1))
	echo "not ok: $1"
	sed 's/^/  out: /' "$tmp/out"
	sed 's/^/  err: /' "$tmp/err"
}

skip() {
	skipped=$((skipped + 1))
	echo "skip $1 ($2)"
}

# expect STATUS NAME COMMAND...: its output is in $tmp/out and $tmp/err.
expect() {
	wanted=$1
	name=$2
	shift 2
	"$@" >"$tmp/out" 2>"$tmp/err" </dev/null
	status=$?
	if [ $status -eq "$wanted" ]; then
		ok "$name: exit $status"
	else
		not_ok "$name: exit $status instead of $wanted"
	fi
}

# has FILE PATTERN NAME
has() {
	if grep -q -e "$2" "$tmp/$1"; then ok "$3"; else not_ok "$3: no \"$2\""; fi
}

empty() {
	if [ ! -s "$tmp/$1" ]; then ok "$2"; else not_ok "$2: there is something in $1"; fi
}

one_line() {
	if [ "$(wc -l <"$tmp/err")" -eq 1 ]; then ok "$1: one line"; else not_ok "$1: not one line"; fi
}

narrow() {
	if awk 'length($0) > 80 { exit 1 }' "$tmp/out"; then ok "$1: at most 80 columns"; else not_ok "$1: too wide"; fi
}

is_json() {
	if python3 -c 'import json, sys; d = json.load(sys.stdin); assert d["schema"] == 1; assert eval(sys.argv[1])' \
		"$2" <"$tmp/out" 2>>"$tmp/err"; then ok "$1"; else not_ok "$1: not the JSON that was expected"; fi
}

# build_machine FILE FOLDER: the format is described in tests/unit/machines/README.
build_machine() {
	built=$2
	tab=$(printf '\t')
	file=
	while IFS= read -r line; do
		case $line in
		'#'*) continue ;;
		"$tab"*) printf '%s\n' "${line#"$tab"}" >>"$built/$file" && continue ;;
		*' -> '*)
			mkdir -p "$built/$(dirname "${line%% -> *}")"
			ln -s "${line##* -> }" "$built/${line%% -> *}"
			;;
		*"$tab"*)
			file=${line%%"$tab"*}
			mkdir -p "$built/$(dirname "$file")"
			printf '%s\n' "${line#*"$tab"}" >"$built/$file"
			;;
		*/) mkdir -p "$built/$line" ;;
		esac
	done <"$1"
}

# golden NAME: what was written is golden/NAME.txt to the letter. With PGHOT_GOLDEN=write it becomes that, to be looked at.
golden() {
	file=$(dirname "$0")/golden/$1.txt
	if [ "${PGHOT_GOLDEN:-}" = write ]; then
		mkdir -p "$(dirname "$file")"
		cp "$tmp/out" "$file"
	fi
	if cmp -s "$tmp/out" "$file"; then
		ok "$1 is as it was"
	else
		diff "$file" "$tmp/out" >"$tmp/err"
		not_ok "$1 is not what golden/$1.txt has"
	fi
}

finish() {
	stop
	echo "$passed passed, $failed failed, $skipped skipped"
	[ $failed -eq 0 ] || exit 1
	[ $passed -gt 0 ] || exit 77
	exit 0
}
