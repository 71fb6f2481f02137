#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# tune --save: into the file as people wrote it, or not at all.
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"

etc=$tmp/etc
conf=$etc/pghotd.conf
mkdir "$etc"

write() {
	printf '# mine\nmode = "promote"; // for now\npromote = {\n\trate_mib_per_sec = 1024; # as shipped\n};\n' >"$conf"
}
same_file() { # NAME
	if cmp -s "$conf" "$tmp/wanted"; then ok "$1"; else cp "$conf" "$tmp/out" && diff "$conf" "$tmp/wanted" >"$tmp/err"; not_ok "$1"; fi
	if [ "$(ls -A "$etc")" = pghotd.conf ]; then ok "$1: nothing else is left there"; else not_ok "$1: $(ls -A "$etc")"; fi
}
runs() { # KEY VALUE NAME
	"$pghotctl" tune "$1" >"$tmp/out" 2>"$tmp/err"
	has out "^$1 = $2" "$3"
}

write
chmod 640 "$conf"
[ "$(id -u)" -ne 0 ] || chown 0:4 "$conf"
owner=$(stat -c '%u:%g %a' "$conf")
start --state promoting --config "$conf"
expect 0 "save one" "$pghotctl" tune promote.rate_mib_per_sec=256 --save
has out "^promote.rate_mib_per_sec: 1024 -> 256$" "what it was and is"
has out "^saved in $conf$" "and where it is saved"
printf '# mine\nmode = "promote"; // for now\npromote = {\n\trate_mib_per_sec = 256; # as shipped\n};\n' >"$tmp/wanted"
same_file "only the value changes"
if [ "$(stat -c '%u:%g %a' "$conf")" = "$owner" ]; then ok "owner and mode stay"; else not_ok "owner and mode stay"; fi
runs promote.rate_mib_per_sec 256 "it runs"
"$pghotctl" status >"$tmp/out" 2>"$tmp/err"
if grep -q "^Tuned" "$tmp/out"; then not_ok "status shows no drift"; else ok "status shows no drift"; fi
expect 0 "and a reload keeps it" "$pghotctl" reload
has out "^configuration read again$" "with nothing to revert"
expect 0 "save what is missing" "$pghotctl" tune --save promote.burst_ms=50
printf '# mine\nmode = "promote"; // for now\npromote = {\n\trate_mib_per_sec = 256; # as shipped\n\t# pghotctl tune --save\n\tburst_ms = 50;\n};\n' \
	>"$tmp/wanted"
same_file "it comes to its group"
expect 0 "save the same again" "$pghotctl" tune promote.burst_ms=50 --save
same_file "which changes nothing"
expect 0 "mode observe" "$pghotctl" mode observe
expect 0 "tune" "$pghotctl" tune promote.burst_ms=60
expect 0 "save all, as JSON" "$pghotctl" tune --save --json
is_json "what was saved" 'd["saved"] == {"mode": "observe", "promote.burst_ms": "60"} and d["file"].endswith("/pghotd.conf")'
sed -i 's/"promote"/"observe"/; s/= 50/= 60/' "$tmp/wanted"
same_file "all that was tuned is saved"
expect 0 "save all again" "$pghotctl" tune --save
has out "^nothing to save: what runs is what $conf says$" "there is nothing"
expect 0 "tune" "$pghotctl" tune promote.burst_ms=70
expect 0 "save one of them as it is" "$pghotctl" tune promote.burst_ms --save
sed -i 's/= 60/= 70/' "$tmp/wanted"
same_file "it is saved"
# At once: each is saved, or told that it isn't; none undoes another's.
for value in 71 72 73 74 75 76; do
	"$pghotctl" tune promote.burst_ms=$value --save >"$tmp/at-once-$value" 2>&1 &
	saving="${saving:-} $!"
done
# shellcheck disable=SC2086 # one word each
wait $saving
cat "$tmp"/at-once-* >"$tmp/out"
: >"$tmp/err"
has out "^saved in" "of six at once"
if [ "$(grep -c -e '^saved in' -e '; nothing was changed' "$tmp/out")" -eq 6 ]; then ok "six at once"; else not_ok "six at once"; fi
runs promote.burst_ms "$(sed -n 's/.*burst_ms = \([0-9]*\);/\1/p' "$conf")" "what is saved last runs"
expect 0 "and then one more" "$pghotctl" tune promote.burst_ms=70 --save
same_file "as before"
expect 0 "save what needs a restart" "$pghotctl" tune control.group=adm --save
has out "^control.group: pghot -> adm, with the next start of pghotd$" "it says that it needs one"
runs control.group pghot "what runs stays"
expect 1 "save nosuch" "$pghotctl" tune nosuch --save
has err "nosuch: there is no such setting" "a key that is none"

# Refused, and nothing was changed, here or there.
cp "$conf" "$tmp/wanted"
for bad in promote.burst_ms=0 promote.burst_ms=fast mdoe=observe; do
	expect 1 "save $bad" "$pghotctl" tune "$bad" --save
	one_line "save $bad"
	same_file "save $bad"
done
has err "did you mean mode" "the nearest key is named"
expect 64 "save without a key" "$pghotctl" tune =1 --save
expect 64 "--save with another verb" "$pghotctl" status --save
echo "# later" >>"$conf"
cp "$conf" "$tmp/wanted"
expect 1 "save into a file that somebody changed" "$pghotctl" tune promote.burst_ms=80 --save
has err "has changed since pghotd has read it; nothing was changed: first pghotctl reload" "it says what to do"
one_line "save into a file that somebody changed"
same_file "it stays as somebody made it"
runs promote.burst_ms 70 "what runs stays, too"
expect 0 "reload" "$pghotctl" reload
touch "$conf"
expect 0 "a file that was only touched is the same" "$pghotctl" tune promote.burst_ms=80 --save
echo "mode = ;" >>"$conf"
cp "$conf" "$tmp/wanted"
expect 1 "save into a file that is none any more" "$pghotctl" tune promote.burst_ms=90 --save
has err "$conf:[0-9]*: .*; nothing was changed: mend that, then pghotctl reload" "it says where"
same_file "it stays as it is"
rm "$conf"
expect 1 "save into a file that is gone" "$pghotctl" tune promote.burst_ms=90 --save
has err "has changed since" "it says so"
mkfifo "$conf"
expect 1 "save into a pipe" timeout 60 "$pghotctl" tune promote.burst_ms=90 --save
has err "no ordinary file" "it says so"
rm "$conf"
stop

# None yet: it is made. A link is followed.
start --state promoting --config "$conf"
expect 0 "save where there is no file" "$pghotctl" tune promote.burst_ms=50 --save
printf 'promote = {\n    # pghotctl tune --save\n    burst_ms = 50;\n};\n' >"$tmp/wanted"
same_file "it is made"
stop
mkdir "$tmp/real"
mv "$conf" "$tmp/real/main.conf"
ln -s ../real/main.conf "$conf"
start --state promoting --config "$conf"
expect 0 "save through a link" "$pghotctl" tune promote.burst_ms=51 --save
has out "^saved in $tmp/real/main.conf$" "it says which file that is"
if [ -L "$conf" ] && grep -q "burst_ms = 51" "$tmp/real/main.conf"; then ok "the link stays"; else not_ok "the link stays"; fi
stop
rm "$tmp/real/main.conf"
start --state promoting --config "$conf"
expect 1 "save through a link to nothing" "$pghotctl" tune promote.burst_ms=52 --save
has err "link to nothing" "it says so"
runs promote.burst_ms 100 "what runs stays"
stop
rm "$conf"

# No room to write it: a file may not grow beyond nothing.
write
cp "$conf" "$tmp/wanted"
start --state promoting --config "$conf"
# shellcheck disable=SC2016 # the inner shell expands it
sh -c 'trap "" XFSZ; ulimit -f 0; "$0" tune promote.burst_ms=52 --save 2>&1; echo "exit $?"' "$pghotctl" | cat >"$tmp/out"
: >"$tmp/err"
has out "^pghotctl: cannot save: .*; nothing was changed$" "a full disk is told"
has out "^exit 1$" "with its exit status"
# The same where the kernel says so, in a mount namespace.
if ! unshare -m mount --bind "$etc" "$etc" 2>/dev/null; then
	skip "a full and a read-only file system" "nothing can be mounted here"
else
	# shellcheck disable=SC2016 # the inner shell expands it
	expect 1 "a file system that is full" unshare -m sh -c 'cp "$0/pghotd.conf" "$0/../kept" && mount -t tmpfs -o size=8k none "$0" &&
		cp "$0/../kept" "$0/pghotd.conf" && dd if=/dev/zero of="$0/fill" bs=4k count=1 2>/dev/null &&
		"$1" tune promote.burst_ms=52 --save' "$etc" "$pghotctl"
	has err "No space left on device; nothing was changed" "is told"
	# shellcheck disable=SC2016
	expect 1 "a file system that is read-only" unshare -m sh -c 'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" &&
		"$1" tune promote.burst_ms=52 --save' "$etc" "$pghotctl"
	has err "Read-only file system; nothing was changed" "is told"
	rm -f "$tmp/kept"
	# As a container is given a single file. Only a new kernel says so before it has to be replaced.
	# shellcheck disable=SC2016
	expect 1 "a file that is a mount" unshare -m sh -c 'mount --bind "$0" "$0" && "$1" tune promote.burst_ms=52 --save' "$conf" "$pghotctl"
	has err "$conf: this file alone is mounted here.*edit it where it comes from.*; nothing was changed" "it says what to do"
	one_line "a file that is a mount"
fi
same_file "a full disk leaves the file"
runs promote.burst_ms 100 "and what runs"
stop

member() {
	setpriv --reuid=65534 --regid=65534 --groups "$(getent group adm | cut -d: -f3)" "$@"
}
if [ "$(id -u)" -ne 0 ] || ! getent group adm >/dev/null || ! member test -x "$pghotctl"; then
	skip "a folder that can't be written to" "needs root and a group adm, and $pghotctl for all"
else
	chmod 644 "$conf"
	start --state promoting --config "$conf" --group adm
	expect 0 "a member of the group may tune" member "$pghotctl" tune promote.burst_ms=52
	expect 77 "but not save" member "$pghotctl" tune promote.burst_ms=53 --save
	has err "Permission denied; nothing was changed (as root: sudo pghotctl tune" "it says who may"
	one_line "but not save"
	same_file "the file stays"
	runs promote.burst_ms 52 "and what runs"
	stop

	# A daemon of another user could name any file.
	printf '#!/bin/sh\nexec setpriv --reuid=65534 --regid=65534 --clear-groups "%s" "$@"\n' "$(realpath "$fake_daemon")" >"$tmp/other"
	chmod 755 "$tmp/other"
	chown -R 65534 "$tmp/run"
	fake_daemon=$tmp/other
	start --state promoting --config "$etc/nosuch"
	expect 1 "root saves what another user's daemon names" "$pghotctl" tune promote.burst_ms=54 --save
	has err "pghotd runs as another user.*nosuch; nothing was changed" "it says why"
	one_line "root saves what another user's daemon names"
	same_file "no file is made for it"
	runs promote.burst_ms 100 "and what runs stays"
	stop
	chown -R 0 "$tmp/run"
	fake_daemon=$2
fi
start --state promoting
expect 1 "save with a daemon that doesn't say its file" "$pghotctl" tune promote.burst_ms=52 --save
stop
expect 3 "save without a daemon" "$pghotctl" tune promote.burst_ms=52 --save
finish
