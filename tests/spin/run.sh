#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Searches all states of a model with spin: none may break what it asserts. Then each variant that the model names as
# broken on purpose, in which the search must find the fault, so that its silence means something.
#     run.sh MODEL
set -u
model=$1
cc=${CC:-cc}
depth=200000
memory_mb=1000
passed=0
failed=0

for tool in spin "${cc%% *}"; do
	if ! command -v "$tool" >/dev/null 2>&1; then
		echo "$tool is not installed"
		exit 77
	fi
done
tmp=$(mktemp -d "${TMPDIR:-/tmp}/pghot-spin-XXXXXX") || exit 1
trap 'rm -rf "$tmp"' EXIT
trap 'exit 1' INT TERM HUP
model=$(cd "$(dirname "$model")" && pwd)/$(basename "$model")
cd "$tmp" || exit 1

ok()
{
	passed=$((passed + 1))
	echo "ok: $1"
}

not_ok()
{
	failed=$((failed + 1))
	echo "not ok $1"
	sed 's/^/  /' out
}

# search DEFINE,...: the verifier's report is in the file out. It is a failure if there is none. It ends by the memory that
# it may take, however slow the machine is.
search()
{
	rm -f pan pan.* ./*.trail
	# shellcheck disable=SC2046,SC2086 # words; and a compiler with its options
	spin $(printf '%s\n' "$1" | sed 's/[^,]*/-D&/g; s/,/ /g') -a "$model" >out 2>&1 &&
		$cc -O1 -w -DSAFETY -DCOLLAPSE -DMEMLIM=$memory_mb -o pan pan.c >>out 2>&1 &&
		./pan -m$depth >out 2>&1 &&
		grep -q 'errors: ' out
}

sed -n 's/^ \* search: \([A-Z0-9_]*\) \(.*\)/\1 \2/p' "$model" >searches
[ -s searches ] || echo "WHOLE" >searches
while read -r name what; do
	if ! search "$name"; then
		not_ok "$name can't be searched"
	elif grep -q 'errors: 0$' out && ! grep -q 'Search not completed\|max search depth too small\|out of memory' out; then
		ok "${what:-all of it}: $(sed -n 's/^ *\([0-9.e+]*\) states, stored.*/\1/p' out) states, no fault"
	else
		not_ok "$name: a fault, or too many states"
	fi
done <searches
sed -n 's/^ \* broken: \([A-Z0-9_,]*\) \(.*\)/\1 \2/p' "$model" >variants
[ -s variants ] || not_ok "the model names no broken variant"
while read -r name why; do
	if search "$name" && grep -q 'assertion violated\|invalid end state' out; then
		ok "found: $why"
	else
		not_ok "not found: $name: $why"
	fi
done <variants
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
