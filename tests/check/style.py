#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""C by clang-format, shell by shellcheck, Python compiles."""
import os
import re
import shutil
import subprocess
import sys

sys.dont_write_bytecode = True
import cases  # noqa: E402


def run(words):
    done = subprocess.run(words, cwd=cases.ROOT, capture_output=True, text=True, timeout=120,
                          stdin=subprocess.DEVNULL, check=False)
    return (done.stdout + done.stderr).splitlines() if done.returncode else []


def main():
    checks = cases.Cases("style")
    paths = cases.files()
    sources = [path for path in paths if path.endswith((".c", ".h")) and path.split(os.sep)[0] in
               ("src", "include", "tests")]
    shells, pythons = [], []
    for path in paths:
        try:
            head = cases.read(path)[:2000]
        except UnicodeDecodeError:
            continue
        first = head.split("\n", 1)[0]
        if re.match(r"#!.*\b(sh|dash|bash)\b", first) or re.search(r"^# shellcheck shell=", head, re.M):
            shells.append(path)
        if path.endswith(".py") or re.match(r"#!.*\bpython3\b", first):
            pythons.append(path)

    if shutil.which("clang-format"):
        for path in sources:
            lines = run(["clang-format", "--dry-run", "-Werror", "--style=file", path])
            faults = [line for line in lines if "error:" in line] or lines
            checks.check(path, faults and [f"{faults[0]} ({len(faults)} places; clang-format -i {path})"])
    else:
        checks.skip(f"{len(sources)} C files", "clang-format is not installed")
    if shutil.which("shellcheck"):
        for path in shells:
            checks.check(path, run(["shellcheck", "-x", "-f", "gcc", path])[:10])
    else:
        checks.skip(f"{len(shells)} shell scripts", "shellcheck is not installed")
    for path in pythons:
        try:
            compile(cases.read(path), path, "exec")
            checks.check(path, [])
        except SyntaxError as error:
            checks.check(path, [str(error)])
    if shutil.which("mandoc"):
        for path in [path for path in paths if re.fullmatch(r"man/.*\.\d", path)] + sys.argv[1:]:
            checks.check(os.path.basename(path), run(["mandoc", "-T", "lint", "-W", "warning", path]))
    else:
        checks.skip("manual pages", "mandoc is not installed")
    checks.end()


main()
