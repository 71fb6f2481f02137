# what it must refuse, each with one line that says why, or survive
# SPDX-License-Identifier: GPL-2.0-or-later
# machine: two-tier
# timeout: 300
# needs: pghotd pghotctl
# shellcheck shell=dash

echo 0 > "$NUMAB"

# try FILE COMMAND...: at most a minute; its status in TRIED, what it said in FILE.
try()
{
	try_log=$OUT/$1
	shift
	timeout 60 "$@" > "$try_log" 2>&1
	TRIED=$?
}

one_line()
{
	check "$1 is refused with one line" "$(wc -l < "$try_log")" -eq 1
}

promote_conf
start_pghotd || finish
try second.txt pghotd -c "$PGHOTD_CONF" --foreground
check "a second one is refused" "$TRIED" -ne 0 -a "$TRIED" -ne 143
one_line "a second one"
check "the first one goes on" "$(status_get schema)" -ge 1
stop_pghotd
check "the first one ends with status 0" "$PGHOTD_STATUS" -eq 0

chmod 666 "$PGHOTD_CONF"
try writable.txt pghotd -c "$PGHOTD_CONF" --foreground
check "a configuration that others may write ends with 78" "$TRIED" -eq 78
one_line "a configuration that others may write"
chmod 644 "$PGHOTD_CONF"

printf 'mod = "promote";\n' > "$PGHOTD_CONF"
try typo.txt pghotd -c "$PGHOTD_CONF" --foreground
check "a typo ends with 78" "$TRIED" -eq 78
check "a typo is answered with the nearest key" -n "$(grep -w mode "$try_log")"

promote_conf
try namespace.txt unshare -p -f pghotd -c "$PGHOTD_CONF" --foreground
check "a child pid namespace ends with 69" "$TRIED" -eq 69
check "a child pid namespace is named" -n "$(grep -i namespace "$try_log")"

killall -KILL pghotd 2>/dev/null	# one that was not refused would be in the way below
try user.txt su user -s /bin/sh -c "exec pghotd -c $PGHOTD_CONF --foreground"
check "without permission it ends with 77" "$TRIED" -eq 77
check "the capability that is missing is named" -n "$(grep CAP_ "$try_log")"
check "none of these changed a setting" "$(cat "$NUMAB")" = 0

killall -KILL pghotd 2>/dev/null
rm -rf /run/pghotd

# An administrator's own choice, and no leave to change it.
echo 1 > "$NUMAB"
rate_before=$(cat "$RATE")
write_conf 'mode = "promote";' 'sources = [ "hint_faults" ];' \
	'hint_faults = { manage_sysctls = false; };'
: > "$OUT/pghotd.log"
if start_pghotd; then
	if wait_for 30 grep -q numa_balancing "$OUT/pghotd.log"; then
		ok "it says that numa_balancing is 1"
	else
		not_ok "it says that numa_balancing is 1" "$(tail -n 1 "$OUT/pghotd.log")"
	fi
	sleep 2
	check "and leaves it alone" "$(cat "$NUMAB") $(cat "$RATE")" = "1 $rate_before"
	stop_pghotd
	check "and is left alone at the stop" "$(cat "$NUMAB") $(cat "$RATE")" = "1 $rate_before"
fi
