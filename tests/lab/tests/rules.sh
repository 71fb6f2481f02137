# programs under an include, an exclude, a cpuset, fast_max_percent and a wish of their own: only what may move moves
# SPDX-License-Identifier: GPL-2.0-or-later
# machine: two-tier
# timeout: 600
# needs: hotset pghotd pghotctl trouble
# shellcheck shell=dash disable=SC1091,SC2154

. /lab/kinds.sh

# rules PERCENT: with what lab-part may have of the fast tier.
rules()
{
	promote_conf 'manage = { default = false; rules = (' \
		'{ match = "cgroup:/lab-in/off"; mode = "off"; },' \
		'{ match = "cgroup:/lab-in/**"; },' \
		'{ match = "cgroup:/lab-mems/**"; },' \
		"{ match = \"cgroup:/lab-part/**\"; fast_max_percent = $1; }" \
		'); };'
}

cg=/sys/fs/cgroup
echo 0 > "$NUMAB"
echo 0 > /sys/kernel/mm/numa/demotion_enabled
mkdir -p $cg/lab-in/off $cg/lab-in/below $cg/lab-in/own/below $cg/lab-mems $cg/lab-part
echo 1 > $cg/lab-mems/cpuset.mems
trouble off $cg/lab-in/own || give_up "a control group can say so itself" "it has no extended attributes"
rules 1
fast_scan
size='--total-mib 8 --hot-mib 4 --thp never'
# shellcheck disable=SC2086
{
	start_kind in lab-in/below $size
	start_kind off lab-in/off $size
	start_kind other '' $size
	start_kind own lab-in/own/below $size
	start_kind mems lab-mems $size
}
start_kind part lab-part --total-mib 32 --hot-mib 24 --thp never
start_pghotd || finish

# A hundredth of the fast node, in pages; of which the program has some from the start.
share=$(($(awk '/MemTotal/ { print $4 }' /sys/devices/system/node/node0/meminfo) / 100 / 4))
used()
{
	awk '{ n = 0; for (i = 1; i <= NF; i++) { if (split($i, w, "=") == 2 && w[1] == "N0") n = w[2]
		if (w[1] == "kernelpagesize_kB") sum += n * w[2] / 4 } } END { print sum + 0 }' "/proc/$PID_part/numa_maps"
}
has_its_share()
{
	[ "$(used)" -ge $((share * 90 / 100)) ]
}
check_near in 60
if wait_for 90 has_its_share; then
	ok "part: gets nine tenths of its share"
else
	not_ok "part: gets nine tenths of its share" "$(used) of $share pages"
fi
check_left fast_max 4000000 60
check_left rule 4000000 30
check_left opted_out 2000000 30
closed()
{
	[ "$(status_get counters.move_cpuset)" -gt 0 ]
}
if wait_for 60 closed; then
	ok "mems: its cpuset closes the near node to it"
else
	not_ok "mems: its cpuset closes the near node to it" "move_cpuset is $(status_get counters.move_cpuset)"
fi
# Two more rounds of what it has.
sleep 25
note "part: $(used) pages near, its share is $share; hot pages near $(kind_get part hot_near) of $(kind_get part hot_total)"
check "part: has no more than its share" "$(used)" -le "$share"
is_explained()
{
	pghotctl explain "$PID_part" > "$OUT/explain.txt" 2>&1
	grep -q 'fast_max_percent' "$OUT/explain.txt"
}
if wait_for 60 is_explained; then
	ok "part: explain names what holds its pages"
else
	not_ok "part: explain names what holds its pages" "$(grep 'May move' "$OUT/explain.txt")"
fi
for kind in off other own mems; do
	check_far $kind
done

rules 100
kill -HUP "$PGHOTD_PID"
check_near part 60
for kind in off other own mems; do
	check_far $kind
done
cp "$OUT/status.json" "$OUT/status-end.json"
stop_pghotd
check "it ends with status 0" "$PGHOTD_STATUS" -eq 0
stop_kinds
rmdir $cg/lab-in/own/below $cg/lab-in/own $cg/lab-in/off $cg/lab-in/below $cg/lab-in $cg/lab-mems $cg/lab-part
