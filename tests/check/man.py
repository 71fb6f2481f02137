#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Help and manual page have the same long options, and the page the program's version. man.py PROGRAM..."""
import os
import re
import subprocess
import sys

sys.dont_write_bytecode = True
import cases  # noqa: E402

PAGES = {"pghotd": "man/pghotd.8", "pghotctl": "man/pghotctl.1.in"}


def say(program, word):
    return subprocess.run([program, word], capture_output=True, text=True, timeout=10, stdin=subprocess.DEVNULL,
                          check=True).stdout


def in_help(text):
    """The options that begin a line of the help, with or without a short one before them."""
    return set(re.findall(r"^ +(?:-\w, )?--([a-z][a-z-]*)", text, re.M))


def in_page(text, requests):
    """The long options on lines that begin with one of the requests; mdoc writes --x as "Fl \\-x"."""
    lines = [line for line in text.splitlines() if line.startswith(requests)]
    return {word for line in lines for word in re.findall(r"(?<!\S)\\-([a-z][a-z-]*)", line)}


def missing(some, others, where):
    return [f"--{name} is not in {where}" for name in sorted(some - others)]


def self_test(checks):
    found = in_help("  -c, --config FILE  a file, see --list\n      --run-dir DIR  a folder\n")
    checks.check("self-test: help", [] if found == {"config", "run-dir"} else [str(found)])
    found = in_page(".It Fl c , Fl \\-config Ar file\n.Fl \\-a | \\-has-tiers\nNot \\-this.\n", (".It ", ".Fl "))
    checks.check("self-test: page", [] if found == {"config", "a", "has-tiers"} else [str(found)])


def main():
    checks = cases.Cases("man")
    self_test(checks)
    for program in sys.argv[1:]:
        name = os.path.basename(program)
        page = cases.read(PAGES[name])
        told = in_help(say(program, "--help"))
        checks.check(f"{name}: the help has options", [] if told else ["none found"])
        checks.check(f"{name}: every option of the help is in the page", missing(told, in_page(page, ".It "), PAGES[name]))
        checks.check(f"{name}: every option of the page is in the help",
                     missing(in_page(page, (".It ", ".Op ", ".Fl ")), told, "the help"))
        version = say(program, "--version").splitlines()[0].split()[1]
        checks.check(f"{name}: the page is of version {version}",
                     [] if f'\n.Os "pghotd {version}"\n' in page else [f'{PAGES[name]}: no line .Os "pghotd {version}"'])
    checks.end()


main()
