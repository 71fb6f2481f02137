#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""What counts the tests must not lose a failure."""
import json
import os
import sys
import tempfile

sys.dont_write_bytecode = True
import cases    # noqa: E402
import summary  # noqa: E402

# (what, output, status, ended, passed, failed, skipped)
PROGRAMS = (
    ("its own line counts", "ok a: b\n5 passed, 0 failed, 2 skipped\n", 0, True, 5, 0, 2),
    ("the last line counts", "9 passed, 9 failed, 9 skipped\n1 passed, 0 failed, 0 skipped\n", 0, True, 1, 0, 0),
    ("without skips", "3 passed, 0 failed\n", 0, True, 3, 0, 0),
    ("a failure", "not ok a: b\n4 passed, 1 failed, 0 skipped\n", 1, True, 4, 1, 0),
    ("a program without a line is one case", "hello\n", 0, True, 1, 0, 0),
    ("and fails as one", "hello\n", 3, True, 0, 1, 0),
    ("or is skipped", "no such machine\n", 77, True, 0, 0, 1),
    ("all cases skipped", "skip a: b (why)\n0 passed, 0 failed, 1 skipped\n", 77, True, 0, 0, 1),
    ("a bad end after a good line is a failure", "5 passed, 0 failed, 0 skipped\n", 66, True, 5, 1, 0),
    ("a crash after a good line is a failure", "5 passed, 0 failed, 0 skipped\n", -11, True, 5, 1, 0),
    ("not ending is a failure", "", 0, False, 0, 1, 0),
    ("not ending after a good line too", "5 passed, 0 failed, 0 skipped\n", 0, False, 5, 1, 0),
    ("a number inside a sentence is no count", "it says: 3 passed, 0 failed, or so\n", 1, True, 0, 1, 0),
)


def main():
    checks = cases.Cases("summary")
    for what, output, status, ended, *expected in PROGRAMS:
        counts = summary.of_program("p", output, status, ended)
        got = [counts.passed, counts.failed, counts.skipped]
        faults = [] if got == expected else [f"counted {got}, not {expected}"]
        if len(counts.failures) < counts.failed or len(counts.skips) < counts.skipped:
            faults.append("a failure or a skip has no line")
        checks.check(what, faults)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "testlog.json")
        with open(path, "w", encoding="utf-8") as file:
            for name, output, code, result in (("a", "2 passed, 0 failed, 1 skipped\n", 0, "OK"), ("b", "", -11, "FAIL"),
                                               ("c", "", -15, "TIMEOUT"), ("d", "nothing here\n", 77, "SKIP")):
                file.write(json.dumps({"name": f"pghotd:unit / {name}", "stdout": output, "returncode": code,
                                       "result": result}) + "\n")
        total, failed = summary.of_meson(path, "gcc")
        checks.check("a record of meson", [] if str(total) == "2 passed, 2 failed, 2 skipped" else [str(total)])
        checks.check("which names what failed", [] if [name for name, _ in failed] == ["gcc: b", "gcc: c"] else [str(failed)])
    checks.end()


main()
