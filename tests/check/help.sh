#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# help.sh PROGRAM...: --help and --version on stdout, narrow, with status 0; a wrong word one line on stderr and 64.
set -u
LC_ALL=C
export LC_ALL
passed=0 failed=0
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

verdict() # NAME TEST-WORD...
{
	what=$1
	shift
	if [ "$@" ]; then
		passed=$((passed + 1))
		echo "ok help: $what"
	else
		failed=$((failed + 1))
		echo "not ok help: $what: $*"
	fi
}

try() # PROGRAM WORD...
{
	timeout 60 "$@" >"$dir/out" 2>"$dir/err" </dev/null
	status=$?
}

lines()
{
	wc -l <"$1"
}

for program; do
	name=${program##*/}
	for word in --help -h; do
		try "$program" "$word"
		verdict "$name $word ends with 0" "$status" -eq 0
		verdict "$name $word says something" "$(lines "$dir/out")" -ge 5
		verdict "$name $word is silent on stderr" "$(lines "$dir/err")" -eq 0
		verdict "$name $word fits 80 columns" "$(awk 'length > 80' "$dir/out" | wc -l)" -eq 0
		verdict "$name $word has no tab" "$(grep -c "$(printf '\t')" "$dir/out")" -eq 0
	done
	try "$program" --version
	verdict "$name --version ends with 0" "$status" -eq 0
	verdict "$name --version names itself" "$(grep -c "^$name [0-9]" "$dir/out")" -eq 1
	for word in --no-such-option -Z; do
		try "$program" "$word"
		verdict "$name $word ends with 64" "$status" -eq 64
		verdict "$name $word says so in one line" "$(lines "$dir/err")" -eq 1
		verdict "$name $word names it" "$(grep -c -e "$word" "$dir/err")" -eq 1
		verdict "$name $word is silent on stdout" "$(lines "$dir/out")" -eq 0
	done
	try "$program" no-such-word
	verdict "$name no-such-word ends with 64" "$status" -eq 64
	verdict "$name no-such-word says so in one line" "$(lines "$dir/err")" -eq 1
done

echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
