# a full fast node, of cold memory, and a hot set on the slow one: the cold goes down, and the hot comes up
# SPDX-License-Identifier: GPL-2.0-or-later
# machine: two-tier
# timeout: 600
# needs: hotset pghotd pghotctl
# shellcheck shell=dash

DEMOTION=/sys/kernel/mm/numa/demotion_enabled

near_free_mib()
{
	awk '$1 == "Node" && $2 == 0 && $3 == "MemFree:" { print int($4 / 1024) }' \
		/sys/devices/system/node/node0/meminfo
}

# What promotion leaves free there: the promotion watermark or promote.headroom_percent, whichever is more, in MiB.
headroom_mib()
{
	awk 'FILENAME == "/proc/zoneinfo" && $1 == "Node" { node = $2 }
		FILENAME == "/proc/zoneinfo" && node == "0," && $1 == "promo" { promo += $2 / 256 }
		$1 == "Node" && $2 == 0 && $3 == "MemTotal:" { keep = $4 * 3 / 100 / 1024 }
		END { print int(keep > promo ? keep : promo) + 1 }' /proc/zoneinfo /sys/devices/system/node/node0/meminfo
}

demoted()
{
	echo $(($(vmstat pgdemote_kswapd) + $(vmstat pgdemote_direct)))
}

echo 0 > "$DEMOTION"
kernel_promoted=$(vmstat pgpromote_success)
kernel_demoted=$(demoted)
# Mode 1 beside 2: then the kernel makes hint faults on the fast node, too, by which hot memory shows there.
echo 1 > "$NUMAB"
fast_scan
promote_conf 'make_room = "exchange";' 'promote = { headroom_percent = 3.0; };'

# What nobody will use any more: all of the fast node, down to where the kernel goes on on the slow one.
hotset --report /tmp/old.txt --total-mib $(($(near_free_mib) + 16)) --hot-mib 1 --fill-node -1 --thp never \
	> "$OUT/old.txt" 2>&1 &
OLD_PID=$!
wait_for 120 test -s /tmp/old.txt || give_up "the fast node is filled" "$(tail -n 1 "$OUT/old.txt")"
kill -STOP "$OLD_PID"
start_hotset --total-mib 128 --hot-mib 32 --fill-node 1 --thp never
note "$(near_free_mib) MiB of the fast node are free"
place || give_up "the workload reports a placement" "no answer to SIGUSR1 within 10 s"
check "all pages are far at first" $((HOT_NEAR + COLD_NEAR)) -eq 0

migrated=$(vmstat pgmigrate_success)
start_pghotd || finish
lacking=$(($(headroom_mib) - $(near_free_mib)))
[ "$lacking" -gt 0 ] || lacking=0
check "the way is by exchange" "$(status_get room.way)" = exchange
begin=$(now_ms)
if wait_for 200 hot_near_at_least 95; then
	ok "95 % of the hot pages come near"
else
	status_answers
	not_ok "95 % of the hot pages come near" \
		"$(percent "$HOT_NEAR" "$HOT_TOTAL") % of $HOT_TOTAL are; $(json_get "$OUT/status.json" limiting); $(json_get "$OUT/status.json" room.state)"
fi
note "$HOT_NEAR of $HOT_TOTAL hot pages near after $(($(now_ms) - begin)) ms"
settle || not_ok "promotion comes to rest" "still promoting a minute later"
place
up=$(((HOT_NEAR + COLD_NEAR) * 4096))
down=$(status_get demoted_bytes)
migrated=$((($(vmstat pgmigrate_success) - migrated) * 4096))
pghotctl status > "$OUT/status.txt"
note "$((up >> 20)) MiB came up, $((migrated >> 20)) MiB moved in all, $((down >> 20)) MiB of them down as pghotd says; $lacking MiB were lacking to the headroom at first; $(near_free_mib) MiB are free"
check "cold memory went down" "$down" -gt 0
# Every page that moved either came up or made room: for that, or to restore the headroom, once. A batch is 16 MiB.
check "no more went down than what came up needed" "$((migrated - up))" -le $((up + (lacking + 16) * 1048576))
check "pghotd counts what the kernel counts" "$down" -le $((migrated - up))
check "the kernel demoted nothing" "$(demoted)" -eq "$kernel_demoted"
check "the kernel promoted nothing" "$(vmstat pgpromote_success)" -eq "$kernel_promoted"
check "status says how" -n "$(grep '^Room' "$OUT/status.txt")"
stop_pghotd
check "it ends with status 0" "$PGHOTD_STATUS" -eq 0
kill -KILL "$OLD_PID"
stop_hotset
