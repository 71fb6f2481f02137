# the hot pages come near by samples of ibs_op alone
# SPDX-License-Identifier: GPL-2.0-or-later
# machine: two-tier
# timeout: 900
# ibs: ibs_op,ops_per_miss=40,tell_time=1
# needs: hotset pghotd pghotctl
# shellcheck shell=dash disable=SC1091,SC2154

. /lab/ibs_promote.sh

ibs_promote 5008 240
