#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# The exporter as scrapers see it: exporter.sh PGHOTCTL FAKE_DAEMON EXPORTER [WRAPPER...].
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"

exporter=$3
shift 3
http=$(dirname "$0")/http.py
checker=$(dirname "$0")/metrics_check.py
serving=
port=

end_exporter() {
	[ -z "$serving" ] || {
		kill "$serving" 2>/dev/null
		wait "$serving" 2>/dev/null
	}
	serving=
}
trap 'end_exporter; cleanup' EXIT

# The exporter in the background, by a wrapper or not.
serve() {
	rm -f "$tmp/port" "$tmp/exporter.err" # so that nobody takes what the last one said for this one's
	"$@" >"$tmp/exporter.out" 2>"$tmp/exporter.err" </dev/null &
	serving=$!
}

# Until it listens where the kernel has a port for it.
listens() {
	if poll 600 grep -q 'listening at 127.0.0.1:[1-9]' "$tmp/exporter.err"; then ok "it listens"; else not_ok "it listens"; fi
	port=$(sed -n 's/.*listening at 127.0.0.1:\([0-9]*\)$/\1/p' "$tmp/exporter.err")
}

ask() {
	expect 0 "$1" python3 "$http" ask "$port" "$2" "$3" ${4:+"$4"}
	grep -v '^Date: ' "$tmp/out" >"$tmp/all"
	cp "$tmp/all" "$tmp/out"
	sed '1,/^$/d' "$tmp/out" >"$tmp/body"
}

expect 0 "--help" "$exporter" --help
narrow "--help"
expect 0 "--version" "$exporter" --version
has out '^pghotd-exporter [0-9]' "the version is there"
for wrong in --nonsense --listen --listen=localhost:80 --listen=127.0.0.1 --listen=127.0.0.1:65536 --listen=::1:80 \
	--listen=[::1:80 --patience=0 --patience=61 word; do
	expect 64 "$wrong" "$exporter" "$wrong"
	one_line "$wrong"
done
expect 64 "nowhere to listen" "$exporter"
has err 'pghotd-exporter.socket' "who starts it is said"

start --state promoting
# One without patience for who drips; whoever is served below may be slow, as a busy machine is.
serve "$@" "$exporter" --socket "$socket" --listen 127.0.0.1:0 --patience 1
listens
expect 0 "one that drips is hung up on" python3 "$http" drip "$port" 60
end_exporter
serve "$@" "$exporter" --socket "$socket" --listen 127.0.0.1:0 --patience 60
listens

ask "GET /metrics" GET /metrics
has out '^HTTP/1.1 200 OK$' "it is 200"
has out '^Content-Type: text/plain; version=0.0.4; charset=utf-8$' "it is the text format"
has out '^Vary: Accept$' "a cache is told what it depends on"
has body '^pghotd_up 1$' "the daemon is up"
has body '^pghotd_move_outcome_pages_total{from="1",to="0",size="huge",result="no memory"} 512$' "what it says is there"
"$pghotctl" metrics --textfile >"$tmp/textfile"
# The document counts how often it was asked for, in no metric; all else is one moment's.
if diff "$tmp/textfile" "$tmp/body" >"$tmp/err"; then ok "it is what pghotctl says"; else not_ok "it is what pghotctl says"; fi
if command -v promtool >/dev/null; then
	# shellcheck disable=SC2016 # the inner shell expands it
	expect 0 "promtool check metrics" sh -c 'promtool check metrics <"$0"' "$tmp/body"
else
	skip "promtool check metrics" "promtool is not installed (package prometheus)"
fi
ask "GET /metrics as OpenMetrics" GET /metrics 'application/openmetrics-text;version=1.0.0,text/plain;q=0.5'
has out '^Content-Type: application/openmetrics-text; version=1.0.0; charset=utf-8$' "it is OpenMetrics by name"
expect 0 "it is OpenMetrics" python3 "$checker" open "$tmp/body"
ask "HEAD /metrics" HEAD /metrics
has out '^HTTP/1.1 200 OK$' "HEAD is 200"
has out '^Content-Length: [1-9]' "HEAD tells the length"
if [ -s "$tmp/body" ]; then not_ok "HEAD has no body"; else ok "HEAD has no body"; fi
ask "GET /" GET /
has out '^HTTP/1.1 404 ' "another path is 404"
has body '/metrics' "the right path is said"
ask "PUT /metrics" PUT /metrics
has out '^HTTP/1.1 405 ' "another method is 405"
has out '^Allow: GET, HEAD$' "the right methods are said"
expect 0 "sixty at once" python3 "$http" crowd "$port" 60
has out '^60 up, ' "each of them is served"

stop
# shellcheck disable=SC2317 # poll calls it
up_is() {
	python3 "$http" ask "$port" GET /metrics | grep -q "^pghotd_up $1\$"
}
if poll 600 up_is 0; then ok "a daemon that is off is pghotd_up 0"; else not_ok "a daemon that is off is pghotd_up 0"; fi
ask "no daemon" GET /metrics application/openmetrics-text
has out '^HTTP/1.1 200 OK$' "and that is no error"
expect 0 "and that is OpenMetrics" python3 "$checker" open "$tmp/body"
start
if poll 600 up_is 1; then ok "it is up again"; else not_ok "it is up again"; fi
stop
start --garbage
# shellcheck disable=SC2317 # poll calls it
garbage() {
	python3 "$http" ask "$port" GET /metrics | grep -q "^HTTP/1.1 503 "
}
if poll 600 garbage; then ok "an answer that is none is 503"; else not_ok "an answer that is none is 503"; fi
stop
if [ "$(grep -c 'not running' "$tmp/exporter.err")" -eq 1 ]; then ok "what is wrong is logged once"; else
	cp "$tmp/exporter.err" "$tmp/err"
	not_ok "what is wrong is logged once"
fi
kill "$serving"
wait "$serving"
status=$?
serving=
cp "$tmp/exporter.err" "$tmp/err"
if [ $status -eq 0 ]; then ok "SIGTERM ends it"; else not_ok "SIGTERM ends it: $status"; fi

start
serve python3 "$http" pass "$tmp/port" "$@" "$exporter" --socket "$socket"
if poll 600 test -s "$tmp/port"; then port=$(cat "$tmp/port"); fi
if poll 600 up_is 1; then ok "a socket that is passed on is served"; else
	cp "$tmp/exporter.err" "$tmp/err"
	not_ok "a socket that is passed on is served"
fi
end_exporter
# More than it takes, all of the backlog: the patience with one that says nothing is no reason for others to wait.
serve "$@" "$exporter" --socket "$socket" --listen 127.0.0.1:0 --patience 60
if poll 600 grep -q 'listening at 127.0.0.1:[1-9]' "$tmp/exporter.err"; then ok "it listens"; else not_ok "it listens"; fi
port=$(sed -n 's/.*listening at 127.0.0.1:\([0-9]*\)$/\1/p' "$tmp/exporter.err")
expect 0 "idle connections give way" python3 "$http" idle "$port" 95 60
cp "$tmp/exporter.err" "$tmp/err"
has err "32 connections are open, and those that ask nothing give way" "that is told"
expect 1 "one that is taken" timeout 60 "$exporter" --listen "127.0.0.1:$port"
has err "cannot listen at 127.0.0.1:$port" "the address is said"
end_exporter
finish
