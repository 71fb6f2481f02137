# the lab's IBS as ibs_op: samples are right, far memory is slow, the truth is told
# SPDX-License-Identifier: GPL-2.0-or-later
# machine: two-tier
# timeout: 500
# ibs: ibs_op
# needs: hotset ibs_read
# shellcheck shell=dash disable=SC1091,SC2154,SC2086

. /lab/ibs.sh

# A load from extension memory that took 700 cycles, and an operation that is neither
# load nor store.
injection()
{
	read_ibs period=100000000 config=$L3_MISSES ms=50 \
		inject=0xbff,0x1e0020,0x401000,0x640000,0x40,0x2bc00160081,0x1234567,0x40001567,0
	grep '^sample' /tmp/ibs.txt > /tmp/sample.txt
	check "injected registers come out" -n \
		"$(grep ' ip=0x401000 addr=0x1234567 phys=0x40001567 weight=700 ' /tmp/sample.txt)"
	check "with their bytes" -n "$(grep 'raw=ff0b000020001e' /tmp/sample.txt)"
	check "as a load from CXL" "$(got loads)/$(got cxl)" = 1/1
	read_ibs period=100000000 config=$L3_MISSES ms=50 inject=0xbff,0x1e0020,0x401000,0,0,0,0,0,0
	check "an operation without data has no address" "$(got samples)/$(got no_addr)/$(got loads)" = 1/1/0
}

ibs_instrument
