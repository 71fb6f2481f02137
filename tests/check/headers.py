#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Each header compiles alone: what it needs, it includes. headers.py COMPILER WORD... [-- FLAG...]"""
import os
import subprocess
import sys

sys.dont_write_bytecode = True
import cases  # noqa: E402


def main():
    words = sys.argv[1:] or ["cc"]
    checks = cases.Cases("headers")
    command = [*words, "-std=gnu17", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-fsyntax-only",
               "-I" + os.path.join(cases.ROOT, "include"), "-x", "c", "-"]
    for path in cases.files():
        folder, name = os.path.split(path)
        if folder != "include" or not name.endswith(".h"):
            continue
        # Twice: it must also bear that.
        done = subprocess.run(command, input=f'#include "{name}"\n#include "{name}"\n', capture_output=True,
                              text=True, timeout=60, check=False)
        faults = done.stderr.splitlines()[:10] if done.returncode else []
        if "#pragma once" not in cases.read(path) and name not in ("options_rest.h", "options_undef.h"):
            faults.append("has no #pragma once")
        checks.check(name, faults)
    checks.end()


main()
