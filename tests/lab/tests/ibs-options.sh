# each ibs option changed live shows in what the PMU is asked for; a budget moves the period
# SPDX-License-Identifier: GPL-2.0-or-later
# machine: two-tier
# timeout: 600
# ibs: ibs_op,ops_per_miss=40
# needs: hotset pghotd pghotctl
# shellcheck shell=dash disable=SC1091,SC2154

. /lab/ibs_options.sh

ibs_options
ibs_budget
