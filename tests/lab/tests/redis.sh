# Debian's Redis, unmodified: pghotd's samples of it are its own, and 90 % of its cache misses come near
# SPDX-License-Identifier: GPL-2.0-or-later
# machine: two-tier
# timeout: 900
# ibs: ibs_op,ops_per_miss=40,pages=1
# needs: page_misses ring_witness redis-server redis-benchmark redis-cli pghotd pghotctl
# shellcheck shell=dash disable=SC1091,SC2154

# Redis waits for system calls more than for memory, about 14 far misses a GET; so one in 32 of them is sampled.
MISSES=32
KEYS=12000
SAMPLES=2000

if ! command -v redis-server > /dev/null; then
	skip "Redis runs" "the lab's cache has no redis-server; run: tests/lab/lab fetch"
	finish
fi

answers()
{
	[ "$(redis-cli ping 2>/dev/null)" = PONG ]
}

# far_pages: of the server's, by its own tables.
far_pages()
{
	grep -o 'N1=[0-9]*' "/proc/$redis/numa_maps" | awk -F = '{ n += $2 } END { print n + 0 }'
}

# gets: into GETS how many the server answers for a billion cycles that the emulator works: a busy host doesn't count. Most
# of that is system calls, so where its memory is makes little difference.
gets()
{
	gets_begin=$(busy_kcycles)
	redis-benchmark -t get -n 3000 -r $KEYS -q >> "$OUT/benchmark.txt" 2>&1
	GETS=$((3000 * 1000 * 1000 / ($(busy_kcycles) - gets_begin)))
}

busy_kcycles()
{
	awk '{ for (i = 1; i <= NF; i++) if (sub(/^busy_kcycles=/, "", $i)) sum += $i } END { print sum }' "$IBS_DEBUG/stats"
}

has_clients()
{
	[ "$(redis-cli info clients | sed -n 's/^connected_clients:\([0-9]*\).*/\1/p')" -gt 50 ]
}

# near_share SECONDS: in NEAR_SHARE the tenths of a percent of the L3 misses to its memory in that time that node 0 served,
# by the emulator's count of each page, and in MISSES_LINE what was counted. No sample has a part in it.
near_share()
{
	MISSES_LINE=$(page_misses pid="$redis" ms=$(($1 * 1000)) | tee -a "$OUT/misses.txt" | tail -n 1)
	near_misses=$(ibs_value "$MISSES_LINE" misses0)
	all_misses=$((near_misses + $(ibs_value "$MISSES_LINE" misses1)))
	NEAR_SHARE=$((all_misses ? near_misses * 1000 / all_misses : 0))
}

is_near()
{
	near_share 4
	[ $NEAR_SHARE -ge 900 ]
}

echo 0 > "$NUMAB"
# Its memory is far since its cpuset has nothing else while it is filled. A memory policy of its own would be left alone.
mkdir -p /sys/fs/cgroup/lab-redis
echo 1 > /sys/fs/cgroup/lab-redis/cpuset.mems
redis-server --save '' --appendonly no --enable-debug-command yes > "$OUT/redis.txt" 2>&1 &
redis=$!
echo $redis > /sys/fs/cgroup/lab-redis/cgroup.procs
wait_for 30 answers || give_up "Redis starts" "$(tail -n 1 "$OUT/redis.txt")"
check "it is filled" "$(redis-cli debug populate 50000 cold 1024)" = OK
# The keys that redis-benchmark reads are those that it writes.
redis-benchmark -t set -n $((KEYS * 2)) -r $KEYS -d 1024 -P 32 -q > "$OUT/fill.txt" 2>&1
note "$(redis-cli dbsize) keys, $(redis-cli info memory | sed -n 's/^used_memory_human:\(.*\)\r*$/\1/p' | tr -d '\r')"
before_pages=$(far_pages)
check "its memory is far" "$before_pages" -ge 15000
gets
far=$GETS
redis-benchmark -t get -n 100000000 -r $KEYS -q > /dev/null 2>&1 &
load=$!
wait_for 30 has_clients || give_up "redis-benchmark connects" "$(redis-cli info clients | tr -d '\r' | head -n 2)"
echo 0-1 > /sys/fs/cgroup/lab-redis/cpuset.mems
# Nothing moves yet, so it may take the time that it needs.
near_share 4
[ $all_misses -ge 10000 ] || near_share 30
note "near at first: $((NEAR_SHARE / 10)).$((NEAR_SHARE % 10)) % of its misses; $MISSES_LINE"
check "no more than 5 % of its misses are near at first" "$NEAR_SHARE" -le 50
check "it misses often enough to tell" "$all_misses" -ge 10000

write_conf 'mode = "promote";' 'sources = [ "ibs" ];' "ibs = { pmu = \"ibs_op\"; period = $((MISSES * 40)); };" \
	'threads = { ring_kib = 2048; };'
start_pghotd || finish
total=$(status_get counters.total)
useful=$(status_get counters.useful)
type=$(ibs_value "$(grep '^cpu=0 ' "$IBS_DEBUG/asked")" sample_type)
# The daemon doesn't wait for it, hence the large rings.
ring_witness owner="$PGHOTD_PID" pid="$redis" type="$type" ms=300000 want=$SAMPLES > "$OUT/witness.txt" 2>&1
line=$(tail -n 1 "$OUT/witness.txt")
note "$line"
mine=$(ibs_value "$line" mine)
check "$SAMPLES samples are of redis-server" "$mine" -ge $SAMPLES
check "none is outside its mappings" "$(ibs_value "$line" outside)" -eq 0
check "the witness missed nothing" "$(ibs_value "$line" missed_bytes)/$(ibs_value "$line" bad)" = 0/0

took_all()
{
	took_now=$(status_get counters.useful)
	[ $((${took_now:-0} - useful)) -ge "$mine" ]
}

wait_for 60 took_all
status_answers
total=$(($(json_get "$OUT/status.json" counters.total) - total))
useful=$(($(json_get "$OUT/status.json" counters.useful) - useful))
check "the daemon decoded what the witness saw" "$total" -ge "$(ibs_value "$line" samples)"
check "and took no fewer for evidence" "$useful" -ge "$mine"
check "nothing was lost or not understood" \
	"$(json_get "$OUT/status.json" counters.lost) $(json_get "$OUT/status.json" counters.bad_records)" = "0 0"

begin=$(now_ms)
wait_for 120 is_near
note "near $(($(now_ms) - begin)) ms later: $((NEAR_SHARE / 10)).$((NEAR_SHARE % 10)) %; $MISSES_LINE"
check "90 % of its misses are near" "$NEAR_SHARE" -ge 900
status_answers
moved=$(json_get "$OUT/status.json" counters.move_ok)
absent=$(json_get "$OUT/status.json" counters.move_not_present)
# Pages that it takes for the server's and that are none: the kernel says so. The server may give one back meanwhile.
check "hardly a page that it wanted to move was absent" $((absent * 100)) -le "$moved"
note "of its regions $(json_get "$OUT/status.json" counters.regions_whole) were moved whole or in part," \
	"$(json_get "$OUT/status.json" counters.regions_pages) page by page"

kill "$load"
wait "$load" 2>/dev/null
promoted=$(status_get promoted_pages)
stop_pghotd
check "it ends with status 0" "$PGHOTD_STATUS" -eq 0
check "its log names redis-server and its pid" -n \
	"$(grep 'promoted [0-9]* KiB of redis-server (pid '"$redis"')' "$OUT/pghotd.log")"
check "pages of redis-server came near" "$(far_pages)" -lt "$before_pages"
gets
note "GETs for a billion cycles of the emulator: all far $far, then with $promoted of $before_pages pages promoted $GETS"
check "Redis lives" "$(redis-cli ping)" = PONG
redis-cli shutdown nosave > /dev/null 2>&1
wait "$redis"
check "and ends with status 0" $? -eq 0
