# by hardware samples, which see all memory: what is bound to nodes, or of a hugetlb pool, stays and is counted
# SPDX-License-Identifier: GPL-2.0-or-later
# machine: two-tier
# timeout: 480
# ibs: ibs_mprof,ops_per_miss=40
# needs: hotset pghotd pghotctl
# shellcheck shell=dash disable=SC1091,SC2154

. /lab/kinds.sh

echo 0 > "$NUMAB"
for node in 0 1; do
	echo 16 > /sys/devices/system/node/node$node/hugepages/hugepages-2048kB/nr_hugepages
done
write_conf 'mode = "promote";' 'sources = [ "ibs" ];' "ibs = { pmu = \"$IBS_PMU\"; period = 5008; };"
# A look at all pages takes long here, so they are looked at seldom.
size='--total-mib 16 --hot-mib 8 --thp never --report-ms 8000'
# shellcheck disable=SC2086
{
	start_kind plain '' $size
	start_kind bound '' $size --bind-nodes 2
	start_kind both '' $size --bind-nodes 3
	start_kind pool '' $size --memory hugetlb,frames
}
frames=$(kind_get pool frames)
check "the page frames of the pool can be seen" "$frames" != 0
start_pghotd || finish
check_near plain 180
check_left policy 4000000 60
check_left hugetlb 4000000 60
settle
for kind in bound both pool; do
	check_far $kind
done
check "pool: the same page frames as before" "$(kind_get pool frames)" = "$frames"
stop_pghotd
check "it ends with status 0" "$PGHOTD_STATUS" -eq 0

# Allowed, the pages of the pool move whole, and cost what they are. The bound ones stay.
write_conf 'mode = "promote";' 'sources = [ "ibs" ];' "ibs = { pmu = \"$IBS_PMU\"; period = 5008; };" \
	'kinds = { hugetlb = true; };'
start_pghotd || finish
check_near pool 180
settle
near=$(near_pages pool)
promoted=$(status_get promoted_pages)
note "pool: near $near, promoted_pages $promoted"
check "they are charged whole" "$promoted" -ge "$near"
check "other page frames are behind them" "$(kind_get pool frames)" != "$frames"
check_far bound
check_far both
stop_pghotd
stop_kinds
for node in 0 1; do
	echo 0 > /sys/devices/system/node/node$node/hugepages/hugepages-2048kB/nr_hugepages
done
