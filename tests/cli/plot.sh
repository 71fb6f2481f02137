#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# The picture of a simulation is well-formed, whatever stands in its scenario: plot.sh PGHOTCTL PGHOTD.
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"

pghotd=$2
cat >"$tmp/odd.conf" <<'END'
title = "a <b> & \"c\" 'd'";
seconds = 10;
nodes = ( { mib = 4096; tier = 0; cpus = 4; }, { mib = 4096; tier = 1; } );
memory = ( { name = "a<b"; mib = 64; node = 1; } );
accesses = ( { name = "x&y"; memory = "a<b"; pattern = "uniform"; } );
sampler = { per_sec = 1000; };
END
expect 0 "a simulation with a picture" "$pghotd" --simulate="$tmp/odd.conf" --plot="$tmp/odd.svg"
expect 0 "it is well-formed" python3 -c 'import sys, xml.dom.minidom
root = xml.dom.minidom.parse(sys.argv[1]).documentElement
texts = [text.firstChild.data for text in root.getElementsByTagName("text")]
assert root.tagName == "svg" and root.getAttribute("viewBox"), root
assert any("a <b> & \"c\"" in text for text in texts), texts
left, top, width, height = map(float, root.getAttribute("viewBox").split())
assert all(0 <= float(text.getAttribute("x")) <= width and 0 <= float(text.getAttribute("y")) <= height
	for text in root.getElementsByTagName("text"))
assert root.getElementsByTagName("polyline") or root.getElementsByTagName("path"), "no line"' "$tmp/odd.svg"
expect 1 "a picture where none can be" "$pghotd" --simulate="$tmp/odd.conf" --plot=/nonexistent/odd.svg
one_line "a picture where none can be"
finish
