# SPDX-License-Identifier: GPL-2.0-or-later
"""Shows the daemon at work in the emulated machine, on a terminal or in a log."""
import os
import shutil
import sys
import time

import labvm
from labcache import say

BAR = 20
PAGE_MIB = 4096 / 1048576


class Screen:
    """Draws the guest's KEY=VALUE lines: in place on a terminal, else line by line."""

    def __init__(self):
        self.tty = sys.stdout.isatty()
        self.drawn, self.width = False, 0
        self.phase, self.last = "", None
        self.end_ms = None

    def line(self, text):
        try:
            words = dict(word.split("=", 1) for word in text.split())
            hot, hot_all = (int(n) for n in words["hot"].split("/"))
            cold, cold_all = (int(n) for n in words["cold"].split("/"))
            promoted = int(words.get("promoted") or 0)
            speed = int(words.get("speed") or 0)
        except (KeyError, ValueError):
            return
        share = hot / hot_all if hot_all else 0.0
        self.last = (share, cold / cold_all if cold_all else 0.0, promoted * PAGE_MIB)
        phase = words.get("phase", "")
        if phase == "end":
            self.end_ms = int(words.get("ms") or 0)
            return
        if phase != self.phase:
            self.close()
            say({"before": "a program reads 32 of its 128 MiB at random; all of it is slow memory",
                 "run": "pghotd starts"}.get(phase, phase))
            self.phase = phase
        full = int(share * BAR + 0.5)
        self.draw(f"hot near [{'#' * full}{'.' * (BAR - full)}] {share * 100:5.1f} %  "
                  f"{promoted * PAGE_MIB:5.1f} MiB moved  {speed / 1e6:4.1f} M reads/s  "
                  f"{words.get('sec', '?'):>2} s")

    def draw(self, text):
        if not self.tty:
            say(text)
            return
        room = shutil.get_terminal_size().columns - 1
        sys.stdout.write("\r" + text[:room].ljust(min(self.width, room)))
        sys.stdout.flush()
        self.drawn, self.width = True, len(text)

    def close(self):
        """The line drawn in place stays, what follows begins below it."""
        if self.drawn:
            sys.stdout.write("\n")
            sys.stdout.flush()
            self.drawn = False


def demo(cache, options):
    screen = Screen()
    started = time.monotonic()
    say("booting an emulated machine with a fast and a slow memory tier (about 5 s)")
    test = labvm.Test(os.path.join(labvm.LAB, "guest", "demo.sh"))
    try:
        run, out = labvm.boot_tests(cache, options, [test], False, screen.line)
    finally:
        screen.close()
    if screen.last:
        hot, cold, moved = screen.last
        say(f"hot pages near {hot * 100:.1f} %, cold pages near {cold * 100:.1f} %, "
            f"{moved:.1f} MiB promoted"
            + (f", 95 % after {screen.end_ms / 1000:.1f} s of guest time" if screen.end_ms else ""))
    say(f"{time.monotonic() - started:.0f} s in all")
    if run.failed or not run.passed:
        with open(os.path.join(out, "results.txt"), encoding="utf-8") as file:
            for line in file:
                if line.startswith("not ok"):
                    say(line.rstrip())
        print(f"lab: logs are in {out}", file=sys.stderr)
        return 1
    if not options.out:
        shutil.rmtree(out, ignore_errors=True)
    return 0
