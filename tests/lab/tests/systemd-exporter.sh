# the exporter is started by its first scraper, unprivileged and without a network, and says whether pghotd runs
# SPDX-License-Identifier: GPL-2.0-or-later
# machine: debian
# timeout: 400
# shellcheck shell=dash

exporter()
{
	systemctl show --value -p "$1" pghotd-exporter.service
}

# Not by wget: with no names at all, that of a static busybox crashes on looking up one.
scrape()
{
	printf 'GET /metrics HTTP/1.0\r\n\r\n' | /lab/bin/busybox nc 127.0.0.1 10417 > "$OUT/metrics.txt" 2>> "$OUT/nc.txt"
}

# up_is N: what a scraper is told.
up_is()
{
	scrape && grep -qx "pghotd_up $1" "$OUT/metrics.txt"
}

if [ ! -x /usr/local/sbin/pghotd-exporter ]; then
	skip "the exporter" "not built: libmicrohttpd is not installed"
	finish
fi
systemctl stop pghotd
check "the socket starts" "$(systemctl start pghotd-exporter.socket > "$OUT/said.txt" 2>&1; echo $?)" -eq 0
check "nothing runs yet" "$(exporter ActiveState)" = inactive
if wait_for 60 up_is 0; then ok "without pghotd it is not up"; else
	not_ok "without pghotd it is not up" "$(journalctl --no-pager -o cat -u pghotd-exporter | tail -n 1)"
fi
check "the scraper started it" "$(exporter ActiveState)" = active
pid=$(exporter MainPID)
check "it is not root" "$(awk '$1 == "Uid:" { print $2 }' "/proc/$pid/status")" -gt 0
check "it has no capability" "$(awk '$1 == "CapBnd:" || $1 == "CapEff:" { print $2 }' "/proc/$pid/status" | sort -u)" = 0000000000000000
check "it has no network" "$(readlink "/proc/$pid/ns/net")" != "$(readlink /proc/self/ns/net)"
systemctl start pghotd
if wait_for 60 up_is 1; then ok "with pghotd it is up"; else
	not_ok "with pghotd it is up" "$(journalctl --no-pager -o cat -u pghotd-exporter | tail -n 1)"
fi
check "as the same process" "$(exporter MainPID)" = "$pid"
check "counters are there" "$(grep -c '^pghotd_samples_total ' "$OUT/metrics.txt")" -eq 1
systemctl stop pghotd
if wait_for 60 up_is 0; then ok "when pghotd stops it is not up"; else not_ok "when pghotd stops it is not up"; fi
systemctl stop pghotd-exporter.socket
is_gone()
{
	[ "$(exporter ActiveState)" = inactive ]
}
wait_for 60 is_gone
check "with its socket it goes" "$(exporter ActiveState)" = inactive
check "and nobody answers" "$(scrape; echo $?)" -ne 0
check "no unit has failed" -z "$(systemctl --failed --no-legend --plain)"
