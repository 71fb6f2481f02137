#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs a program on a terminal of 20 columns and 10 rows, presses q once it shows something, and looks at what it left."""
import fcntl
import os
import pty
import re
import select
import struct
import sys
import termios
import time

COLUMNS, ROWS, SECONDS = 20, 10, 30


def main():
    pid, fd = pty.fork()
    if pid == 0:
        os.environ["TERM"] = "xterm"
        os.execv(sys.argv[1], sys.argv[1:])
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    before = termios.tcgetattr(fd)
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
            os.write(fd, b"q")
        if shown.endswith(b"\x1b[?1049l"):
            time.sleep(0.1)
            break
    after = termios.tcgetattr(fd)
    _, status = os.waitpid(pid, 0)
    faults = []
    if not pressed or os.waitstatus_to_exitcode(status) != 0:
        faults.append(f"it ended with {status}, having shown {shown!r}")
    if before != after:
        faults.append("the terminal is not as it was")
    if not (shown.startswith(b"\x1b[?1049h") and shown.endswith(b"\x1b[?25h\x1b[?1049l")):
        faults.append("the screen is not as it was")
    for screen in shown.split(b"\x1b[H\x1b[J")[1:]:
        lines = re.sub(rb"\x1b\[[0-9;?]*[a-zA-Z]", b"", screen).split(b"\r\n")
        if len(lines) > ROWS or any(len(line) > COLUMNS for line in lines):
            faults.append(f"a screen of {len(lines)} rows and {max(map(len, lines))} columns: {screen!r}")
    sys.exit("\n".join(faults) if faults else 0)


main()
