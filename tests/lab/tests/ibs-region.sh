# policy region puts the hot pages near from a twentieth of the samples that policy page takes for the same
# SPDX-License-Identifier: GPL-2.0-or-later
# machine: two-tier
# timeout: 700
# ibs: ibs_op,ops_per_miss=40
# needs: hotset pghotd pghotctl
# shellcheck shell=dash disable=SC1091,SC2154

. /lab/ibs_region.sh

ibs_region
