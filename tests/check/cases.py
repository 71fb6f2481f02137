# SPDX-License-Identifier: GPL-2.0-or-later
"""What the checks share: where the project is, which files it has, cases counted as the unit tests count theirs."""
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class Cases:
    def __init__(self, suite):
        self.suite, self.passed, self.failed, self.skipped = suite, 0, 0, 0

    def check(self, name, faults):
        """A case passes when it has no fault; each fault is a line."""
        if not faults:
            self.passed += 1
            print(f"ok {self.suite}: {name}")
            return
        self.failed += 1
        print(f"not ok {self.suite}: {name}")
        for fault in faults:
            print(f"  {fault}")

    def skip(self, name, why):
        self.skipped += 1
        print(f"skip {self.suite}: {name} ({why})")

    def end(self):
        print(f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped")
        sys.exit(1 if self.failed else 77 if not self.passed else 0)


def files(root=ROOT):
    """Every file of the project, relative; not what builds leave in it."""
    found = []
    for folder, folders, names in os.walk(root):
        here = os.path.relpath(folder, root)
        folders[:] = sorted(name for name in folders if name not in (".git", "__pycache__")
                            and not (here == "." and (name == "build" or name.startswith("build-"))))
        found += [os.path.normpath(os.path.join(here, name)) for name in sorted(names)
                  if not name.endswith(".pyc") and not (here == "." and name == ".git")
                  and not os.path.islink(os.path.join(folder, name))]
    return found


def read(path, root=ROOT):
    with open(os.path.join(root, path), encoding="utf-8") as file:
        return file.read()
