# Debian's Redis, unmodified: pghotd's samples of it are its own, and its hot pages come near
# SPDX-License-Identifier: GPL-2.0-or-later
# machine: two-tier
# timeout: 400
# ibs: ibs_op,ops_per_miss=40
# needs: ring_witness redis-server redis-benchmark redis-cli pghotd pghotctl
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

gets_per_sec()
{
	redis-benchmark -t get -n "$1" -r $KEYS -q 2>/dev/null | tr '\r' '\n' | tee -a "$OUT/benchmark.txt" |
		sed -n 's/^GET: \([0-9]*\).* requests per second.*/\1/p' | tail -n 1
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
echo 0-1 > /sys/fs/cgroup/lab-redis/cpuset.mems
before_pages=$(far_pages)
check "its memory is far" "$before_pages" -ge 15000
far=$(gets_per_sec 2000)

write_conf 'mode = "promote";' 'sources = [ "ibs" ];' "ibs = { pmu = \"ibs_op\"; period = $((MISSES * 40)); };" \
	'promote = { freq_threshold = 1; };' 'threads = { ring_kib = 2048; };'
start_pghotd || finish
total=$(status_get counters.total)
useful=$(status_get counters.useful)
redis-benchmark -t get -n 100000000 -r $KEYS -q > /dev/null 2>&1 &
load=$!
type=$(ibs_value "$(grep '^cpu=0 ' "$IBS_DEBUG/asked")" sample_type)
# The daemon doesn't wait for it, hence the large rings.
ring_witness owner="$PGHOTD_PID" pid="$redis" type="$type" ms=120000 want=$SAMPLES > "$OUT/witness.txt" 2>&1
line=$(tail -n 1 "$OUT/witness.txt")
note "$line"
mine=$(ibs_value "$line" mine)
check "$SAMPLES samples are of redis-server" "$mine" -ge $SAMPLES
check "none is outside its mappings" "$(ibs_value "$line" outside)" -eq 0
check "the witness missed nothing" "$(ibs_value "$line" missed_bytes)/$(ibs_value "$line" bad)" = 0/0

took_all()
{
	[ $(($(status_get counters.useful) - useful)) -ge "$mine" ]
}

wait_for 10 took_all
status_answers
total=$(($(json_get "$OUT/status.json" counters.total) - total))
useful=$(($(json_get "$OUT/status.json" counters.useful) - useful))
check "the daemon decoded what the witness saw" "$total" -ge "$(ibs_value "$line" samples)"
check "and took no fewer for evidence" "$useful" -ge "$mine"
check "nothing was lost or not understood" \
	"$(json_get "$OUT/status.json" counters.lost) $(json_get "$OUT/status.json" counters.bad_records)" = "0 0"
# Pages that it would take for the server's and that are none: the kernel refuses to move them, and that is counted.
grep -o '"moves":\[[^]]*\]' "$OUT/status.json" > "$OUT/moves.txt"
check "no page that it wanted to move was absent" -z "$(grep not_present "$OUT/moves.txt")"

kill "$load"
wait "$load" 2>/dev/null
promoted=$(status_get promoted_pages)
stop_pghotd
check "it ends with status 0" "$PGHOTD_STATUS" -eq 0
check "its log names redis-server and its pid" -n \
	"$(grep 'promoted [0-9]* KiB of redis-server (pid '"$redis"')' "$OUT/pghotd.log")"
check "pages of redis-server came near" "$(far_pages)" -lt "$before_pages"
note "GET/s: all far $far, then with $promoted of $before_pages pages promoted $(gets_per_sec 2000)"
check "Redis lives" "$(redis-cli ping)" = PONG
redis-cli shutdown nosave > /dev/null 2>&1
wait "$redis"
check "and ends with status 0" $? -eq 0
