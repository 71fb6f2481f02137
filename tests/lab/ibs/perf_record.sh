# perf records what ibs_inject writes, once for a processor without and once for one with Zen 4's extensions
# SPDX-License-Identifier: GPL-2.0-or-later
# machine: two-tier
# timeout: 400
# ibs: ibs_op
# shellcheck shell=dash disable=SC2154

# Run by perf_check.py, which brings perf and compares what comes out. lib.sh has been read before.

tar -xf /perf.tar -C / || give_up "perf is unpacked" "tar failed"
RECORDS=$(cat /lab/perf-records)

# record FILE SEED CAPS...: one perf.data in the test's folder. The period is so long that next to
# nothing but the injected samples comes.
record()
{
	record_file=$1
	shift
	record_seed=$1
	shift
	if /perf/ld.so --library-path /perf/lib /perf/perf record -a -c 100000000 -m 4096 -d --phys-data -W -R \
		-e ibs_op// -o "/tmp/$record_file" -- ibs_inject "$record_seed" "$RECORDS" "$@" \
		>> "$OUT/perf.txt" 2>&1; then
		ok "perf records into $record_file"
	else
		not_ok "perf records into $record_file" "$(tail -n 1 "$OUT/perf.txt")"
	fi
	cp "/tmp/$record_file" "$OUT/$record_file" && rm "/tmp/$record_file"
}

ibs_load gen=zen3 || give_up "the module loads as Zen 3" "$(dmesg | tail -n 1)"
record old.data 1 0x7 0x3ff 0x7ff
ibs_load gen=zen4 || give_up "the module loads as Zen 4" "$(dmesg | tail -n 1)"
record new.data 2 0xbff 0xfff 0x1fff 0x81bff 0xdfbff
