# SPDX-License-Identifier: GPL-2.0-or-later
"""Counts test cases: what programs print about themselves, and meson's record of a run."""
import json
import re

LINE = re.compile(r"^(?:[\w-]+: *)?(\d+) passed, (\d+) failed(?:, (\d+) skipped)?\s*$")
SKIPPED = 77


class Counts:
    """Cases passed, failed and skipped; failures and skips with a line each."""

    def __init__(self):
        self.passed = self.failed = self.skipped = 0
        self.failures, self.skips = [], []

    def add(self, other):
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped
        self.failures += other.failures
        self.skips += other.skips

    def ok(self):
        self.passed += 1

    def fail(self, text):
        self.failed += 1
        self.failures.append(text)

    def skip(self, text):
        self.skipped += 1
        self.skips.append(text)

    def __str__(self):
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"


def of_program(name, output, status, ended=True):
    """The cases of one program: its own last "N passed, ..." line, else the program is one case."""
    counts = Counts()
    own = None
    for line in output.splitlines():
        found = LINE.match(line)
        if found:
            own = found
        elif line.startswith("not ok "):
            counts.failures.append(f"{name}: {line[7:]}")
        elif line.startswith("skip "):
            counts.skips.append(f"{name}: {line[5:]}")
    if own:
        counts.passed, counts.failed = int(own[1]), int(own[2])
        counts.skipped = int(own[3] or 0)
    bad = not ended or status not in (0, SKIPPED)
    # A program that says all is well and yet ends badly (a sanitizer, a crash at exit) has failed once more.
    if bad and counts.failed == 0:
        counts.fail(f"{name}: {'did not end in time' if not ended else f'ended with status {status}'}")
    elif not own and not bad:
        if status == SKIPPED:
            reason = next((line for line in reversed(output.splitlines()) if line.strip()), "no reason given")
            counts.skips = []
            counts.skip(f"{name}: {reason}")
        else:
            counts.ok()
    while len(counts.failures) < counts.failed:
        counts.failures.append(f"{name}: does not say what")
    while len(counts.skips) < counts.skipped:
        counts.skips.append(f"{name}: no reason given")
    return counts


def of_meson(path, label):
    """(Counts, [(test name, its output)] of those that failed) from a testlog.json."""
    total, failed = Counts(), []
    with open(path, encoding="utf-8") as file:
        for line in file:
            test = json.loads(line)
            output = test.get("stdout", "") + "\n" + test.get("stderr", "")
            name = f"{label}: {test['name'].split(' / ')[-1].split(':')[-1]}"
            counts = of_program(name, output, test["returncode"], test["result"] != "TIMEOUT")
            total.add(counts)
            if counts.failed:
                failed.append((name, output))
    return total, failed
