#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""What no file of the project may hold, and how long one may be."""
import os
import re
import sys

sys.dont_write_bytecode = True
import cases  # noqa: E402

LINES_MAX = {"src": 600, "include": 600, "tests": 900}
# Test input, which may be anything.
DATA = re.compile(r"tests/(?:unit|fuzz)/[^/]+/")
# Addresses that a reader is sent to. No machine's package server is among them.
HOSTS = {"www.gnu.org", "fsf.org", "docs.kernel.org", "www.kernel.org", "man7.org", "mdocml.bsd.lv", "www.freedesktop.org",
         "127.0.0.1", "www.debian.org", "www.qemu.org", "hyperrealm.github.io", "openmetrics.io", "www.w3.org"}
# Where it lies; unless that is a place like /src, which every file may name.
HERE = re.compile(re.escape(cases.ROOT) + r"(?![\w-])" if cases.ROOT.count("/") > 1 else r"(?!)")
UNFINISHED = re.compile(r"\b(?:TO" r"DO|FIX" r"ME|X" r"XX)\b")
LICENSED = (".c", ".h", ".def", ".py", ".sh")


def faults_of(path, text, known):
    faults = []
    lines = text.split("\n")

    def fault(number, what):
        faults.append(f"{path}:{number}: {what}")

    if path == "LICENSE":
        return faults
    if text and not text.endswith("\n"):
        fault(len(lines), "the last line has no end")
    most = LINES_MAX.get(path.split("/", 1)[0], 600)
    if path.endswith((".c", ".h")) and len(lines) - 1 > most:
        fault(len(lines) - 1, f"longer than {most} lines: split it by what it does")
    if path.endswith(LICENSED) and path.split("/")[:3] != ["tests", "lab", "tests"] and "SPDX-License-Identifier:" not in text[:400]:
        fault(1, "no SPDX-License-Identifier")
    for number, line in enumerate(lines, 1):
        if "\r" in line:
            fault(number, "carriage return")
        if line != line.rstrip():
            fault(number, "white space at the end")
        if UNFINISHED.search(line):
            fault(number, "unfinished work")
        if HERE.search(line) or re.search(r"(?<![\w.])/(?:home/\w|root/)", line):
            fault(number, "a path of one machine")
        for host in re.findall(r"\b(?:https?|ftp)://([\w.-]+)", line):
            if host not in HOSTS:
                fault(number, f"address of {host}, which is none that readers are sent to")
        if re.search(r"\b[Ii]ssue #?\d|\bPR ?#\d", line):
            fault(number, "names an entry of a tracker; say the fact instead")
        for page in re.findall(r"[\w./-]*\w\.md\b", line):
            if os.path.basename(page) not in known:
                fault(number, f"names {page}, which is not in the project")
    return faults


def self_test(checks):
    known = {"README.md"}
    bad = {
        "src/a.c": ("/* SPDX-License-Identifier: x */\nint a; \n", "white space"),
        "src/b.c": ("/* SPDX-License-Identifier: x */\n" + "int b;\n" * LINES_MAX["src"], "longer than"),
        "src/c.c": ("int c;\n", "no SPDX"),
        "README.md": ("see http://ftp.example.net/x\n", "address"),
        "a.md": ("x\r\n", "carriage"),
        "b.md": (f"in {cases.ROOT}/src\n", "a path"),
        "c.md": ("no end", "no end"),
        "d.md": ("TO" "DO later\n", "unfinished"),
        "e.md": ("see other.md\n", "not in the project"),
        "f.md": ("fixes " + "issue 12\n", "tracker"),
    }
    for path, (text, what) in bad.items():
        found = faults_of(path, text, known)
        checks.check(f"self-test: {what}", [] if any(what in fault for fault in found) else [f"not found in {text!r}"])
    found = faults_of("README.md", "See README.md and https://www.gnu.org/licenses/.\n", known)
    checks.check("self-test: good text", found)


def main():
    checks = cases.Cases("text")
    self_test(checks)
    paths = cases.files()
    known = {os.path.basename(path) for path in paths}
    for path in paths:
        try:
            text = cases.read(path)
        except UnicodeDecodeError:
            continue    # recorded data
        # This file's own samples of what is wrong are wrong.
        if DATA.match(path) or path == os.path.relpath(os.path.abspath(__file__), cases.ROOT):
            continue
        checks.check(path, faults_of(path, text, known)[:10])
    checks.end()


main()
