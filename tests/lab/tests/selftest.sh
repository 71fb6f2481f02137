# the lab itself: two tiers, two nodes, and a workload whose pages are where it says
# SPDX-License-Identifier: GPL-2.0-or-later
# machine: two-tier
# timeout: 200
# needs: hotset
# shellcheck shell=dash

check "the CPU has no cmpxchg16b, which the emulator gets wrong" -z "$(grep -w cx16 /proc/cpuinfo)"
tiers=/sys/devices/virtual/memory_tiering
check "node 0 is a tier by itself" -n "$(grep -lx 0 $tiers/memory_tier*/nodelist)"
check "node 1 is a tier by itself" -n "$(grep -lx 1 $tiers/memory_tier*/nodelist)"
note "tiers: $(grep . $tiers/memory_tier*/nodelist |
	sed 's,.*/\(memory_tier[0-9]*\)/nodelist:,\1=,' | tr '\n' ' ')"
check "both nodes have memory" "$(cat /sys/devices/system/node/has_memory)" = "0-1"
check "only node 0 has CPUs" "$(cat /sys/devices/system/node/has_cpu)" = "0"

echo 0 > "$NUMAB"
start_hotset --total-mib 128 --hot-mib 32 --fill-node 1 --thp never
place || give_up "the workload reports a placement" "no answer to SIGUSR1 within 10 s"
check "no page is near" "$HOT_NEAR/$COLD_NEAR" = "0/0"
check "every page was found" "$HOT_TOTAL $HOT_ERR $COLD_TOTAL $COLD_ERR" = "8192 0 24576 0"
in_maps=$(grep -o 'N1=[0-9]*' "/proc/$HOTSET_PID/numa_maps" |
	awk -F = '$2 >= 8192 { n += $2 } END { print n + 0 }')
check "numa_maps has the same 32768 pages on node 1" "$in_maps" -eq 32768
check "no policy is left on the memory" \
	-z "$(grep -E 'bind|prefer' "/proc/$HOTSET_PID/numa_maps")"

# Half of the hot pages moved by hand must show in the next query.
kill -TERM "$HOTSET_PID"
wait "$HOTSET_PID"
check "the workload ends on SIGTERM with status 0" $? -eq 0
start_hotset --total-mib 16 --hot-mib 4 --fill-node 0 --thp never --threads 2 --layout scatter
place
check "memory filled on node 0 is near" "$HOT_NEAR/$COLD_NEAR" = "1024/3072"
stop_hotset

cat > /tmp/t.json <<-'END'
	{"a": "x \"y", "n": -5, "deep": {"k": 7},
	 "none": [], "list": [1, {"m": 9}], "empty": {}, "t": true}
END
got=$(for key in n deep.k list.1.m t a; do json_get /tmp/t.json $key; done | tr '\n' ,)
check "json_get reads what it should" "$got" = '-5,7,9,true,x \"y,'
check "json_get fails for a missing key" -z "$(json_get /tmp/t.json k)"
