#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Prints the seccomp profile of the container, made from the unit's own filter: gen_seccomp.py pghotd.service.in

The unit names groups of system calls; systemd-analyze of systemd 252 says what is in them. What the unit forbids by
RestrictNamespaces= and what no part of pghotd asks for is taken out.
"""
import json
import re
import subprocess
import sys

LEFT_OUT_GROUPS = {"@keyring", "@aio"}
# Namespaces, an execution domain of another kind, other processes' memory, page faults of its own.
LEFT_OUT = {"setns", "unshare", "personality", "process_vm_readv", "process_vm_writev", "userfaultfd"}


def group(name, seen):
    """The system calls in a group, with those of groups in it."""
    if name in LEFT_OUT_GROUPS or name in seen:
        return set()
    seen.add(name)
    told = subprocess.run(["systemd-analyze", "syscall-filter", "--no-pager", name], capture_output=True, text=True, timeout=20,
                          check=True).stdout
    found = set()
    for line in told.splitlines()[1:]:
        word = line.strip()
        if word.startswith("@"):
            found |= group(word, seen)
        elif re.fullmatch(r"\w+", word):
            found.add(word)
    return found


def profile(unit):
    names = set()
    for line in re.findall(r"^SystemCallFilter=(.*)$", unit, re.M):
        seen, of_line = set(), set()
        for word in line.lstrip("~").split():
            of_line |= group(word, seen) if word.startswith("@") else {word}
        names = names - of_line if line.startswith("~") else names | of_line
    return {
        "defaultAction": "SCMP_ACT_ERRNO",
        "defaultErrnoRet": 1,
        "architectures": ["SCMP_ARCH_X86_64", "SCMP_ARCH_AARCH64"],
        "syscalls": [{"names": sorted(names - LEFT_OUT), "action": "SCMP_ACT_ALLOW"}],
    }


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as file:
        print(json.dumps(profile(file.read()), indent=2))
