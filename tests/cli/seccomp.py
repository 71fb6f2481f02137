#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs a command under a seccomp profile of a container, where what the profile doesn't allow kills.

seccomp.py PROFILE COMMAND...
seccomp.py PROFILE --try    says what becomes of some calls under it, as the profile itself has it
77 where such a filter can't be made. Needs no privilege.
"""
import ctypes
import errno
import json
import os
import platform
import re
import struct
import subprocess
import sys

AUDIT_ARCH_X86_64 = 0xC000003E
PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS, SECCOMP_MODE_FILTER = 22, 38, 2
KILL, ERRNO, ALLOW = 0x80000000, 0x00050000, 0x7FFF0000    # SECCOMP_RET_*
LOAD, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06    # BPF_LD|W|ABS, BPF_JMP|JEQ|K, BPF_RET|K

libc = ctypes.CDLL(None, use_errno=True)


class Program(ctypes.Structure):
    _fields_ = [("len", ctypes.c_ushort), ("filter", ctypes.c_void_p)]


def skip(why):
    print(f"skip seccomp ({why})\n0 passed, 0 failed, 1 skipped")
    sys.exit(77)


def numbers():
    """{name: number} of this machine's system calls, as its compiler has them."""
    try:
        told = subprocess.run(["cc", "-E", "-dM", "-include", "asm/unistd.h", "-x", "c", "/dev/null"], capture_output=True,
                              text=True, timeout=60, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        skip("the kernel's headers have no numbers of system calls")
    return {name: int(number) for name, number in re.findall(r"^#define __NR_(\w+) (\d+)$", told, re.M)}


def install(allowed, otherwise):
    steps = [(LOAD, 0, 0, 4), (JUMP_IF_EQUAL, 1, 0, AUDIT_ARCH_X86_64), (RETURN, 0, 0, KILL), (LOAD, 0, 0, 0)]
    for number in sorted(allowed):
        steps += [(JUMP_IF_EQUAL, 0, 1, number), (RETURN, 0, 0, ALLOW)]
    steps.append((RETURN, 0, 0, otherwise))
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    program = Program(len(steps), ctypes.addressof(code))
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0):
        skip(f"this kernel takes no filter: {os.strerror(ctypes.get_errno())}")


def call(number, *words):
    ctypes.set_errno(0)
    libc.syscall(ctypes.c_long(number), *[ctypes.c_long(word) for word in words])
    return ctypes.get_errno()


def attempts(known):
    failed = 0
    # Null pointers: what gets as far as looking at them is allowed.
    for name, words, wanted in (("perf_event_open", (0, 0, -1, -1, 0), errno.EFAULT), ("move_pages", (0, 0, 0, 0, 0, 0), 0),
                                ("get_mempolicy", (0, 0, 0, 0, 0), 0), ("mount", (0, 0, 0, 0, 0), errno.EPERM),
                                ("ptrace", (16, 0, 0, 0), errno.EPERM), ("unshare", (0,), errno.EPERM),
                                ("bpf", (0, 0, 0), errno.EPERM), ("init_module", (0, 0, 0), errno.EPERM)):
        got = call(known[name], *words)
        failed += got != wanted
        print(f"{'ok' if got == wanted else 'not ok'} seccomp: {name}: {os.strerror(got) if got else 'done'}")
    print(f"{8 - failed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


def main():
    if platform.machine() != "x86_64":
        skip("only on x86-64")
    with open(sys.argv[1], encoding="utf-8") as file:
        profile = json.load(file)
    known = numbers()
    # What this kernel's headers don't know can't be asked for here.
    allowed = {known[name] for name in profile["syscalls"][0]["names"] if name in known}
    if sys.argv[2] == "--try":
        install(allowed, ERRNO | profile["defaultErrnoRet"])
        sys.exit(attempts(known))
    install(allowed, KILL)
    os.execvp(sys.argv[2], sys.argv[2:])


main()
