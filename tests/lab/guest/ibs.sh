# SPDX-License-Identifier: GPL-2.0-or-later
# The instrument's own test, for each of its PMUs; read by tests/ibs-instrument*.sh.
# shellcheck shell=dash
# IBS_PMU, IBS_DEBUG, MAX_RATE and what begins with ibs_ come from lib.sh.
# shellcheck disable=SC1091,SC2154,SC2086

. /lab/ibs_speed.sh

IBS_READER="--total-mib 48 --hot-mib 24 --thp never"
# Slow down what the workload does by itself: a report asks for the place of each page.
IBS_HOTSET="$IBS_READER --report-ms 60000"
L3_MISSES=0x90000	# count operations, L3 misses only

# read_ibs WORDS...: the witness's words into IBS_LINE, all it said into a file.
read_ibs()
{
	ibs_read pmu="$IBS_PMU" "$@" > /tmp/ibs.txt
	cat /tmp/ibs.txt >> "$OUT/ibs_read.txt"
	IBS_LINE=$(grep -E '^(samples|error)=' /tmp/ibs.txt)
}

got()
{
	ibs_value "$IBS_LINE" "$1"
}

# refused NAME WORDS...: opening such an event fails with EINVAL.
refused()
{
	refused_name=$1
	shift
	read_ibs ms=1 "$@"
	check "$refused_name" "$(got error)" -eq 22
}

accepted()
{
	accepted_name=$1
	shift
	read_ibs ms=50 "$@"
	check "$accepted_name" "$(got error)" -eq 0
}

# Far memory is slow, and nothing but the reads that the workload counts loads from it.
speed_and_truth()
{
	truth=$(ibs_truth 1 user_loads)
	start_reader near 0 $IBS_READER
	start_reader far 1 $IBS_READER
	run_reader near
	run_reader far
	sleep 1
	turns speed 15 near far
	ratio=$(ratios speed a | middle)
	note "near memory is $((ratio / 100)).$((ratio % 100 / 10))$((ratio % 10)) times as fast as far memory:" \
		"median of $(ratios speed a | wc -l) turns, x100 they were $(ratios speed a | spread);" \
		"from miss to miss it took $(ibs_value "$(cat $IBS_DEBUG/setup)" miss_gap) cycles"
	check "near memory is 2.5 times as fast as far memory, or more" "$ratio" -ge 250
	check "and not more than 4 times" "$ratio" -le 400
	kill -TERM "$(reader_pid near)" "$(reader_pid far)"
	wait "$(reader_pid near)" "$(reader_pid far)"
	truth=$(($(ibs_truth 1 user_loads) - truth))
	reads=$(ibs_value "$(tail -n 1 /tmp/reader-far.txt)" accesses)
	note "$reads far reads, the truth has $truth"
	# and it still read while it made its last report
	check "the truth has all loads from the far node" "$truth" -ge "$reads"
	check "and hardly more" $(((truth - reads) * 10)) -le "$reads"
}

all_on_one_node()
{
	in_maps=$(grep -o "N$1=[0-9]*" "/proc/$HOTSET_PID/numa_maps" |
		awk -F = '{ n += $2 } END { print n + 0 }')
	check "numa_maps has the memory on node $1" "$in_maps" -ge 12288
	mine=$(ibs_truth "$1" user_misses) other=$(ibs_truth $((1 - $1)) user_misses)
	sleep 2
	mine=$(($(ibs_truth "$1" user_misses) - mine))
	other=$(($(ibs_truth $((1 - $1)) user_misses) - other))
	note "user L3 misses in 2 s: $mine on node $1, $other on the other"
	check "the truth has 97 % of the misses there" $((other * 100)) -le $((mine * 3))
}

samples_are_right()
{
	read_ibs period=512 config=$L3_MISSES ms=6000 pid="$HOTSET_PID" regions=1
	# for a host that is slow
	[ "$(got mine)" -ge 1000 ] || read_ibs period=512 config=$L3_MISSES ms=40000 pid="$HOTSET_PID" regions=1
	note "$IBS_LINE"
	check "a thousand samples of the workload" "$(got mine)" -ge 1000
	check "all of them with the right page" "$(got right)/$(got wrong)" = "$(got mine)/0"
	check "each has both addresses" "$(got no_addr)/$(got no_phys)" = 0/0
	check "each has a whole record" "$(got bad_raw)" -eq 0
	check "all are loads or stores" $(($(got loads) + $(got stores))) -eq "$(got samples)"
	check "loads are from memory" $(($(got ram) + $(got cxl))) -eq "$(got loads)"
	check "none was lost" "$(got lost)" -eq 0
	sort -t = -k 3 -n -r /tmp/ibs.txt | awk -F = '
		/^region/ { n++; if (n <= 12) hot = $3; else if (!cold) cold = $3 }
		END { print n + 0, hot + 0, cold + 0 }' > /tmp/regions.txt
	read -r regions hot cold < /tmp/regions.txt
	note "$regions regions of 2 MiB; the 12th has $hot samples, the 13th $cold"
	check "twelve hot regions, each with samples" "$hot" -ge 20
	check "cold regions have less than a fifth" $((cold * 5)) -lt "$hot"
	check "the ring of the plugin never was full" \
		"$(grep -c ' ring_full=0 ' $IBS_DEBUG/stats)" -eq "$(wc -l < $IBS_DEBUG/stats)"
}

pages_agree()
{
	[ -f $IBS_DEBUG/pages ] || return 0
	size=$(dd if=$IBS_DEBUG/pages bs=65536 2>/dev/null | wc -c)
	check "the histogram of pages is there" "$size" -eq 8388608
}

kernel_rules()
{
	read_ibs period=16 config=$L3_MISSES ms=1500 ring-pages=1
	check "a small ring loses samples and says so" "$(got lost)" -gt 0
	rate=$(cat $MAX_RATE)
	echo 1000 > $MAX_RATE
	read_ibs period=16 config=$L3_MISSES ms=2000
	check "the kernel throttles" "$(got throttles)" -gt 0
	check "and starts again" "$(got unthrottles)" -gt 0
	note "at 1000 a second: $(got samples) samples, $(got throttles) throttles"
	echo "$rate" > $MAX_RATE
	# Sixteen times as many, but for what the host takes away meanwhile; and that hardly is the second half five times.
	tries=0
	while [ $tries -lt 5 ]; do
		read_ibs period=8192 new-period=512 config=$L3_MISSES ms=4000
		note "period 8192, then 512: $(got first_half), then $(got second_half) samples"
		[ "$(got second_half)" -ge $((4 * $(got first_half))) ] && break
		tries=$((tries + 1))
	done
	check "a new period is acted on" "$(got second_half)" -ge $((4 * $(got first_half)))
	check "and samples say so" "$(got last_period)" -eq 512
	check "what was asked for is on record" -n \
		"$(grep 'cpu=0 .* config=0x90000 .* period=8192 .* programmed=512 ' $IBS_DEBUG/asked)"
	read_ibs period=4096 config=0x80000 ms=1000
	check "without L3MissOnly most samples are hits" "$(got l1)" -gt "$(got ram)"
	read_ibs period=65536 config=0 ms=1000
	check "cycles can be counted" "$(got samples)" -gt 0
	read_ibs freq=500 config=$L3_MISSES ms=2000
	check "a frequency can be asked for" "$(got samples)" -gt 0
	note "at a frequency of 500: $(got samples) samples in 2 s"
}

hotplug()
{
	echo 0 > /sys/devices/system/cpu/cpu1/online
	read_ibs period=512 config=$L3_MISSES ms=1000
	check "samples go on with a CPU offline" "$(got samples)" -gt 0
	echo 1 > /sys/devices/system/cpu/cpu1/online
	read_ibs period=16 config=0x80000 ms=500 cpu=1
	check "a CPU that came back has samples" "$(got samples)" -gt 0
}

files()
{
	(cd "/sys/bus/event_source/devices/$IBS_PMU" && echo format/* caps/* | tr ' ' '\n' | grep -v '\*' |
		sort | tr '\n' ' ')
}

# with PARAMETERS...: the module anew, as another machine or kernel.
with()
{
	ibs_load "$@" || give_up "the module loads with $*" "$(dmesg | tail -n 1)"
}

generations()
{
	with gen=zen3
	check "zen3: its files" "$(files)" = "format/cnt_ctl "
	[ "$IBS_PMU" = ibs_op ] && refused "zen3: no L3MissOnly" period=512 config=0x10000
	with gen=zen4
	check "zen4: its files" "$(files)" = "caps/zen4_ibs_extensions format/cnt_ctl format/l3missonly "
	accepted "zen4: L3MissOnly" period=512 config=0x10000
	refused "any: an unknown bit" period=512 config=0x100000000
	refused "any: a period and its bits in config" period=512 config=0x20
	accepted "any: the period in config" config=0x80020
	refused "6.12: no exclude_kernel" period=512 exclude=2
	accepted "6.12: a period of 16" period=16
	accepted "6.12: IOC_PERIOD takes anything" period=512 new-period=1001
	with gen=zen5
	check "zen5: its files" "$(files)" = \
		"caps/dtlb_pgsize caps/ldlat caps/zen4_ibs_extensions format/cnt_ctl format/l3missonly format/ldlat "
	refused "zen5: ldlat below 128" period=512 config1=100
	accepted "zen5: ldlat" period=512 config1=512
	with gen=zen6 swfilt=1 min_period=144 strict_period=1
	check "zen6: its files" "$(files | wc -w)" -eq 10
	accepted "newer: exclude_kernel" period=512 exclude=2 config2=1
	refused "newer: no exclude_idle" period=512 exclude=8 config2=1
	refused "newer: no period of 128" period=128
	accepted "newer: a period of 144" period=144
	read_ibs period=512 new-period=1000 ms=20
	check "newer: IOC_PERIOD refuses an odd period" "$(got error)" -eq 22
	read_ibs period=512 config=0x80000 exclude=2 config2=1 ms=500
	check "newer: exclude_kernel leaves user samples" "$(got samples)/$(got kernel_ip)" = "$(got samples)/0"
	with gen=zen4 wipe_phys=2
	read_ibs period=512 config=$L3_MISSES ms=1000 pid="$HOTSET_PID"
	check "wiped: the page table still has the address" "$(got right)/$(got wrong)" = "$(got mine)/0"
	with gen=zen4 tagged=1
	read_ibs period=512 config=$L3_MISSES ms=1000
	check "tagged: samples come" "$(got samples)" -gt 0
	with
}

ibs_instrument()
{
	echo 0 > "$NUMAB"
	note "$(cat $IBS_DEBUG/setup)"
	check "the plugin learnt where both nodes are" \
		"$(ibs_value "$(cat $IBS_DEBUG/setup)" ranges)" -ge 2
	speed_and_truth
	start_hotset $IBS_HOTSET --fill-node 0
	all_on_one_node 0
	samples_are_right
	pages_agree
	kernel_rules
	hotplug
	generations
	injection
	stop_hotset
	cp $IBS_DEBUG/stats $IBS_DEBUG/truth $IBS_DEBUG/asked "$OUT"
}
