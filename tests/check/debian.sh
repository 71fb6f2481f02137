#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# debian.sh FOLDER INSTALLED: builds the Debian packages into FOLDER, holds them to lintian and to what meson installed
# below INSTALLED, and installs, upgrades and purges them in a root of their own. Nothing of this machine is touched: the
# root is a folder, the packages' scripts run in it by dpkg's --force-script-chrootless, and systemd is a stand-in that
# notes what it was told. Needs no privilege. 77 where the tools are missing.
set -u
umask 022
LC_ALL=C
DEB_BUILD_OPTIONS=nocheck
export LC_ALL DEB_BUILD_OPTIONS

here=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd -P)
out=$1
installed=$2
passed=0 failed=0

verdict() # NAME STATUS [FILE]
{
	if [ "$2" -eq 0 ]; then
		passed=$((passed + 1))
		echo "ok debian: $1"
	else
		failed=$((failed + 1))
		echo "not ok debian: $1"
		[ $# -lt 3 ] || sed 's/^/  /' "$3" | tail -n 40
	fi
}

finish()
{
	echo "$passed passed, $failed failed, 0 skipped"
	[ "$failed" -eq 0 ]
	exit
}

for tool in dpkg-buildpackage dh lintian; do
	if ! command -v $tool >/dev/null; then
		echo "skip debian: there is no $tool (packages dpkg-dev, debhelper, lintian)"
		exit 77
	fi
done
rm -rf "$out"
mkdir -p "$out"
out=$(CDPATH='' cd -- "$out" && pwd -P)
"$here/packaging/build-deb" "$out" >"$out/log" 2>&1
status=$?
if [ $status -ne 0 ] && grep -q 'Unmet build dependencies' "$out/log"; then
	echo "skip debian: $(grep 'Unmet build dependencies' "$out/log")"
	exit 77
fi
verdict "the packages build" $status "$out/log"
[ $status -eq 0 ] || finish

lintian --fail-on error,warning --no-tag-display-limit --allow-root --profile debian "$out"/*.changes >"$out/lintian" 2>&1
verdict "lintian has nothing to say" $? "$out/lintian"

# ---- what is in them --------------------------------------------------------------

for package in pghotd pghotd-exporter; do
	dpkg-deb -x "$out/${package}"_*.deb "$out/content"
done
# Debian's places, and what it packs.
(cd "$installed" && find . -type f) | sed -e 's|^\./usr/local/|./usr/|' -e 's|^\./usr/lib/systemd/system/|./lib/systemd/system/|' \
	-e 's|^\./etc/dbus-1/|./usr/share/dbus-1/|' -e 's|/zsh/site-functions/|/zsh/vendor-completions/|' | sort >"$out/files-meson"
(cd "$out/content" && find . -type f) | sed -e '/^\.\/usr\/share\/doc\//d' -e '/\/man\//s|\.gz$||' | sort >"$out/files-debian"
diff "$out/files-meson" "$out/files-debian" >"$out/files" 2>&1
verdict "they hold what meson installs" $? "$out/files"
# shellcheck disable=SC2046 # a list of words
[ $(wc -l <"$out/files-debian") -gt 20 ]
verdict "that is more than nothing" $?

# ---- a life -----------------------------------------------------------------------

root=$out/root
stand_in=$out/stand-in
told=$out/told
mkdir -p "$root/var/lib/dpkg/info" "$root/var/lib/dpkg/updates" "$root/etc" "$root/run/systemd/system" "$stand_in"
: >"$root/var/lib/dpkg/status"
for tool in systemctl deb-systemd-helper deb-systemd-invoke; do
	# It was never enabled, and it runs unless the test says no.
	cat >"$stand_in/$tool" <<-END
		#!/bin/sh
		echo "$tool \$*" >>"$told"
		[ "\$1" != debian-installed ] && [ ! -e "$out/says-no" ]
	END
done
chmod +x "$stand_in"/*
PATH=$stand_in:$PATH:/usr/sbin:/sbin
export PATH

# on_root NAME WORD...: dpkg in the root; what the scripts say is in $out/said, what they told systemd in $told.
on_root()
{
	name=$1
	shift
	: >"$told"
	dpkg --root="$root" --log="$out/dpkg.log" --force-not-root --force-script-chrootless --force-depends --force-confold \
		"$@" >"$out/said" 2>&1 </dev/null
	verdict "$name" $? "$out/said"
}

said()
{
	grep -q -e "$2" "$out/said"
	verdict "$1" $? "$out/said"
}

was_told()
{
	grep -q -e "$2" "$told"
	verdict "$1" $? "$told"
}

not_told()
{
	! grep -q -e "$2" "$told"
	verdict "$1" $? "$told"
}

# The same package, a later version.
later()
{
	rm -rf "$out/later"
	mkdir "$out/later"
	for package in pghotd pghotd-exporter; do
		dpkg-deb -R "$out/${package}"_*.deb "$out/later/$package"
		sed -i "s/^Version: .*/Version: $1/; s/pghotd (= [^)]*)/pghotd (= $1)/" "$out/later/$package/DEBIAN/control"
		dpkg-deb --root-owner-group -b "$out/later/$package" "$out/later" >/dev/null
	done
}

on_root "they install" -i "$out"/pghotd_*.deb "$out"/pghotd-exporter_*.deb
not_told "the service is neither started nor restarted" 'start.* pghotd\.service'
not_told "nor enabled" 'enable.* pghotd\.service'
was_told "the exporter's socket is enabled" 'enable pghotd-exporter\.socket'
grep -q '^pghot:' "$root/etc/group"
verdict "the group is there" $?
grep -q '^pghotd:' "$root/etc/passwd"
verdict "the user is there" $?
"$root/usr/sbin/pghotd" -c "$root/etc/pghotd.conf" --check-config >"$out/said" 2>&1
verdict "the configuration that ships is accepted" $? "$out/said"

later 9.0
on_root "an upgrade" -i "$out"/later/*.deb
was_told "restarts the service" 'try-restart pghotd\.service'
not_told "and does not stop it before" 'stop pghotd\.service'

printf 'mode = "promote";\npromote = { rate_mib_per_sec = "much"; };\n' >"$root/etc/pghotd.conf"
later 9.1
on_root "an upgrade with a configuration that it does not take" -i "$out"/later/*.deb
not_told "leaves the old one running" '\(start\|stop\) pghotd\.service'
said "says so" 'the old one goes on running'
said "with file, line and option" 'pghotd\.conf:2:.*rate_mib_per_sec'
said "and what to do" 'systemctl restart pghotd'
grep -q '"much"' "$root/etc/pghotd.conf"
verdict "the file stays as it was" $?

printf 'mode = "observe";\n' >"$root/etc/pghotd.conf"
on_root "a rollback" --force-downgrade -i "$out"/pghotd_*.deb "$out"/pghotd-exporter_*.deb
was_told "restarts the service as well" 'try-restart pghotd\.service'

touch "$out/says-no"
on_root "an upgrade where the service does not run" -i "$out"/later/*.deb
not_told "starts nothing" 'start pghotd\.service'
rm "$out/says-no"

mkdir -p "$root/run/pghotd" "$root/run/pghotd-helper"
touch "$root/run/pghotd/saved" "$root/run/pghotd-helper/saved"
on_root "they can be removed" -r pghotd-exporter pghotd
was_told "the service is stopped" 'stop pghotd\.service'
was_told "and so is the helper" 'stop pghotd-helper\.socket pghotd-helper\.service'
[ -e "$root/etc/pghotd.conf" ]
verdict "the configuration stays" $?
on_root "and purged" -P pghotd-exporter pghotd
find "$root" -iname '*pghot*' >"$out/left"
[ ! -s "$out/left" ]
verdict "nothing is left" $? "$out/left"
finish
