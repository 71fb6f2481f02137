# the lab's IBS as ibs_mprof: samples are right, far memory is slow, the truth is told
# SPDX-License-Identifier: GPL-2.0-or-later
# machine: two-tier
# timeout: 500
# ibs: ibs_mprof,pages=1
# needs: hotset ibs_read
# shellcheck shell=dash disable=SC1091,SC2154,SC2086

. /lab/ibs.sh

# A load from extension memory, at an address of the kernel's so that no page is asked for.
injection()
{
	read_ibs period=100000000 config=$L3_MISSES ms=50 inject=0xdfbff,0x90020,0,0x40,0x160081,0x1234567,0x40001567
	grep '^sample' /tmp/ibs.txt > /tmp/sample.txt
	check "injected registers come out" -n "$(grep ' addr=0x1234567 phys=0x40001567 ' /tmp/sample.txt)"
	check "with their bytes" -n "$(grep 'raw=fffb0d00200009' /tmp/sample.txt)"
}

ibs_instrument
