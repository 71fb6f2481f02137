# the same job at the kernel's default pace of hint faults, which takes longer
# SPDX-License-Identifier: GPL-2.0-or-later
# machine: two-tier
# timeout: 300
# needs: hotset pghotd pghotctl
# shellcheck shell=dash

promote_job 60
