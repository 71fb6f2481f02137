#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs a program on a terminal of 20 columns and 10 rows, presses q once it shows something, and looks at what it left.

With --kill PID first it ends that process instead, and the program has to say so where it can be read. With --stop PID it
stops that process and presses q while the program waits for it. With --press KEY it presses that key, in hexadecimal.
"""
import fcntl
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time

COLUMNS, ROWS, SECONDS = 20, 10, 60
SCREEN_END = b"\x1b[?25h\x1b[?1049l"


def main():
    victim, stopped, key, faults = None, None, b"q", []
    if sys.argv[1] == "--kill":
        victim = int(sys.argv[2])
        del sys.argv[1:3]
    elif sys.argv[1] == "--stop":
        stopped = int(sys.argv[2])
        del sys.argv[1:3]
    elif sys.argv[1] == "--press":
        key = bytes.fromhex(sys.argv[2])
        del sys.argv[1:3]
    # What it finds and leaves is known before it begins.
    fd, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    before = termios.tcgetattr(fd)
    pid = os.fork()
    if pid == 0:
        os.setsid()
        fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)
        for to in (0, 1, 2):
            os.dup2(terminal, to)
        os.closerange(3, 256)
        os.environ["TERM"] = "xterm"
        for name in ("COLUMNS", "LINES"):
            os.environ.pop(name, None)
        os.execv(sys.argv[1], sys.argv[1:])
    os.close(terminal)
    shown, pressed, end = b"", False, time.monotonic() + SECONDS
    while time.monotonic() < end:
        if not select.select([fd], [], [], 0.2)[0]:
            continue
        try:
            some = os.read(fd, 65536)
        except OSError:    # it has ended
            break
        if not some:
            break
        shown += some
        if not pressed and shown.count(b"pghotd:") >= 2:
            pressed = True
            if termios.tcgetattr(fd)[6][termios.VSUSP] != b"\x00":
                faults.append("it can be stopped, and leaves the terminal as it is then")
            if victim:
                os.kill(victim, signal.SIGTERM)
            else:
                if stopped:
                    os.kill(stopped, signal.SIGSTOP)
                    time.sleep(1.5)    # it asks each second
                os.write(fd, key)
    else:
        faults.append("it did not end in time")
        os.kill(pid, signal.SIGKILL)
    after = termios.tcgetattr(fd)
    _, status = os.waitpid(pid, 0)
    if not pressed or os.waitstatus_to_exitcode(status) != (3 if victim else 0):
        faults.append(f"it ended with {status}, having shown {shown!r}")
    if before != after:
        faults.append("the terminal is not as it was")
    if not shown.startswith(b"\x1b[?1049h") or shown.count(SCREEN_END) != 1:
        faults.append("the screen is not as it was")
    left = shown.partition(SCREEN_END)[2]
    if left.startswith(b"pghotctl: ") != bool(victim) or left.count(b"\n") != bool(victim):
        faults.append(f"behind it is {left!r}")
    for screen in shown.partition(SCREEN_END)[0].split(b"\x1b[H\x1b[J")[1:]:
        lines = re.sub(rb"\x1b\[[0-9;?]*[a-zA-Z]", b"", screen).split(b"\r\n")
        if len(lines) > ROWS or any(len(line) > COLUMNS for line in lines):
            faults.append(f"a screen of {len(lines)} rows and {max(map(len, lines))} columns: {screen!r}")
    sys.exit("\n".join(faults) if faults else 0)


main()
