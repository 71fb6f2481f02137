#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""pghotctl on a terminal: terminal.py WHAT PGHOTCTL [DAEMON]. Prints what a person sees where WHAT is "status" or a "screen"."""
import os
import signal
import sys

sys.dont_write_bytecode = True
import vt  # noqa: E402

PROMPT = "$ job\n"
FIRST = "PID     HOT/s"
HINT = "h help  q quit  p c r by process, cgroup, region  s sorted by "


def begin(program, *args, columns=80, rows=24, shows=HINT):
    """Until @shows is in the last row, which is drawn last."""
    session = vt.Session([program, "top", *args], columns, rows)
    session.wait(lambda: shows in last_row(session) and session.terminal.alternate, "top shows nothing")
    assert not session.terminal.cursor, "the cursor blinks on the screen"
    return session


def ended(session, status=0, left=""):
    """It has ended, and the terminal is as it was before, but for what it says."""
    session.wait(lambda: session.events, "top doesn't end")
    session.settle()
    terminal = session.terminal
    assert session.events == [f"ended {status}"], session.events
    assert not terminal.alternate and terminal.cursor, "the screen is not as it was"
    if not left:
        assert session.text() == PROMPT, session.text()
    else:
        lines = session.text().splitlines(keepends=True)
        assert lines[0] == PROMPT and lines[1].startswith(left), lines
    session.close()


def last_row(session):
    return "".join(session.terminal.cells[-1])


def screen(program, _):
    session = begin(program, shows=HINT + "HOT/s ")
    print(session.text(), end="")
    session.press(b"q")
    ended(session)


def screen_region(program, _):
    session = begin(program, "--by", "region", shows=HINT + "SAMPLES/s ")
    print(session.text(), end="")
    session.press(b"q")
    ended(session)


def status(program, _):
    session = vt.Session([program, "status"], columns=40, rows=60)
    session.wait(lambda: session.events, "status doesn't end")
    session.settle()
    assert session.events == ["ended 0"], session.events
    print(session.text().removeprefix(PROMPT), end="")
    session.close()


def narrow(program, _):
    for columns, rows in (20, 10), (20, 3), (7, 2):
        session = begin(program, columns=columns, rows=rows, shows=HINT[:columns])
        session.press(b"q")
        ended(session)


def sizes(program, _):
    session = begin(program, columns=30, rows=8, shows=HINT[:30])
    for columns, rows in (80, 24), (20, 5), (132, 50), (40, 10):
        session.size(columns, rows)
        session.wait(lambda: last_row(session).startswith(HINT[:columns]), f"no screen of {columns} and {rows}")
        assert session.text().startswith("pghotd: promoting; promotes "[:columns]), session.text()
    session.press(b"q")
    ended(session)


def keys(program, _):
    session = begin(program)
    for key, word in ((b"s", "sorted by HOT"), (b"<", "sorted by HOT/s"), (b"<", "sorted by PID"), (b"R", "sorted by PID, reversed")):
        session.press(key)
        session.wait(lambda: last_row(session).rstrip().endswith(word), f"{word} is not told")
    lines = session.text().splitlines()
    pids = [line.split()[0] for line in lines[3:5]]
    assert pids == ["1", "812"], pids
    for key, word in ((b"h", "the other way round"), (b"h", FIRST), (b"c", "PROCS "), (b"r", "SAMPLES/s"), (b"p", FIRST), (b"\x1b[A", FIRST)):
        session.press(key)
        session.wait(lambda: word in session.text(), f"{key} does not show {word}")
    session.press(b"q")
    ended(session)


def signals(program, _):
    for number in signal.SIGINT, signal.SIGTERM, signal.SIGHUP:
        session = begin(program)
        os.kill(session.pid, number)
        ended(session)
    for key in b"\x03", b"\x1c":    # by the terminal's keys: SIGINT, SIGQUIT
        session = begin(program)
        session.press(key)
        ended(session)


def stops(program, _):
    session = begin(program)
    for round in 1, 2:
        session.press(b"\x1a")
        session.wait(lambda: session.events, "it does not stop")
        session.settle()
        assert session.events == ["stopped"], session.events
        assert session.text() == PROMPT and session.terminal.cursor, "the shell has no screen:\n" + session.text()
        session.events.clear()
        session.resume()
        session.wait(lambda: session.terminal.alternate and FIRST in session.text(), "it does not go on")
    # Stopped by what can't be caught, the terminal keeps its screen; what a shell writes there is drawn over.
    os.kill(session.pid, signal.SIGSTOP)
    session.wait(lambda: session.events, "it does not stop")
    session.events.clear()
    session.terminal.feed(b"\x1b[H\x1b[2Jfg\r\n")
    session.resume()
    session.wait(lambda: FIRST in session.text() and "fg" not in session.text(), "it does not draw all of it")
    session.press(b"q")
    ended(session)


def daemon_ends(program, daemon):
    session = begin(program)
    os.kill(daemon, signal.SIGTERM)
    ended(session, status=3, left="pghotctl: ")


def daemon_hangs(program, daemon):
    session = begin(program)
    os.kill(daemon, signal.SIGSTOP)
    try:
        session.press(b"h")
        session.wait(lambda: "the other way round" in session.text(), "no help while it waits")
        session.press(b"q")
        ended(session)
    finally:
        os.kill(daemon, signal.SIGCONT)


def others(program, _):
    """A terminal that can't place its cursor, and one that nobody knows."""
    for term in "dumb", "no-such-terminal":
        session = vt.Session([program, "top", "--count", "2"], term=term)
        session.wait(lambda: session.events, "top doesn't end")
        session.settle()
        assert session.events == ["ended 0"], session.events
        lines = session.text().splitlines()
        assert lines[1].startswith(f'pghotctl: nothing is known here of a terminal "{term}"'), lines
        assert sum(FIRST in line for line in lines) == 2, lines
        session.close()


def main():
    what = {function.__name__: function for function in
            (status, screen, screen_region, narrow, sizes, keys, signals, stops, daemon_ends, daemon_hangs, others)}
    try:
        what[sys.argv[1].replace("-", "_")](sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else None)
    except AssertionError as error:
        sys.exit(f"{sys.argv[1]}: {error!r}".replace("\\n", "\n"))


main()
