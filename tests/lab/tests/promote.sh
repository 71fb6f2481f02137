# the job: the hot pages are near within 20 s of the daemon's first answer, the cold ones stay
# SPDX-License-Identifier: GPL-2.0-or-later
# machine: two-tier
# timeout: 240
# needs: hotset pghotd pghotctl
# shellcheck shell=dash

fast_scan
promote_job 20
