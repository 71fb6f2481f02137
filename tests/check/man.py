#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Help and manual page have the same long options, and the page the program's version. man.py PROGRAM..."""
import os
import re
import subprocess
import sys

sys.dont_write_bytecode = True
import cases  # noqa: E402

PAGES = {"pghotd": "man/pghotd.8", "pghotctl": "man/pghotctl.1.in", "pghotd-exporter": "man/pghotd-exporter.8"}


def say(program, word):
    return subprocess.run([program, word], capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL,
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


def keys_of_table(source):
    """Names and defaults of a scenario's keys, section by section as the table has them."""
    rows = re.findall(r"^\t(NUMBER|WHOLE|BOOL|TEXT|CHOICE)\((\w+), (\w+)(?:, (.*))?\),$", source, re.M)
    found = []
    for kind, _, name, rest in rows:
        values = [value.strip() for value in (rest or "").split(",")]
        value = {"NUMBER": 2, "WHOLE": 2, "BOOL": 0}.get(kind)
        found.append((name, values[value] if value is not None else None))
    return found


def keys_of_page(page):
    return [(name, value.replace("\\-", "-")) for name, value in re.findall(r"^\.It Ic (\w+) No = (\S+)$", page, re.M)]


def scenario_keys(checks):
    table = keys_of_table(cases.read("src/sim_keys.c"))
    page = keys_of_page(cases.read("man/pghot-scenario.5"))
    told = {}
    for name, value in page:
        told.setdefault(name, set()).add(value)
    faults = [f"{name} is not in the page" for name, _ in table if name not in told]
    faults += [f"{name}: the page doesn't have its default, {value}" for name, value in table
               if name in told and value is not None and value not in told[name]]
    known = {name for name, _ in table} | {"nodes", "memory", "accesses", "sampler", "kernel", "config"}
    faults += [f"{name} is in the page, and no key" for name in told if name not in known]
    checks.check("scenario: the table of keys is read", [] if len(table) > 40 else [f"only {len(table)} were found"])
    checks.check("scenario: keys and defaults are those of the page", faults)


def main():
    checks = cases.Cases("man")
    self_test(checks)
    scenario_keys(checks)
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
