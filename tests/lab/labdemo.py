# SPDX-License-Identifier: GPL-2.0-or-later
"""Shows the daemon at work in the emulated machine, on a terminal or in a log."""
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import labcache
import labvm
from ibs import labibs
from labcache import LabError, say

BAR = 10  # all of a line fits into 80 columns
PAGE_MIB = 4096 / 1048576
# Forty operations for a miss, as a period on hardware counts them; a last cache of 2 MiB, since the program's hot part
# has to be much larger than that.
IBS = "ibs_op,ops_per_miss=40,l3_sets=4096"
SOURCE_NAMES = {"ibs": "hardware samples (an emulated AMD IBS)", "hint_faults": "hint faults of the kernel"}


def emulator_seconds():
    """Processor time that the emulator has had: the program's speed by that doesn't depend on what else runs here."""
    ticks, found = 0, False
    try:
        for task in os.listdir("/proc/self/task"):
            with open(f"/proc/self/task/{task}/children", encoding="ascii") as file:
                children = file.read().split()
            for child in children:
                with open(f"/proc/{child}/stat", encoding="utf-8", errors="replace") as file:
                    fields = file.read().rpartition(")")[2].split()
                ticks, found = ticks + int(fields[11]) + int(fields[12]), True
    except (OSError, ValueError, IndexError):
        found = False
    return ticks / os.sysconf("SC_CLK_TCK") if found else time.monotonic()


class Screen:
    """Draws the guest's KEY=VALUE lines: in place on a terminal, else line by line."""

    def __init__(self):
        self.tty = sys.stdout.isatty()
        self.drawn, self.width = False, 0
        self.phase, self.source, self.now, self.end_ms = "", "", None, 0
        self.speeds, self.last = {}, None

    def line(self, text):
        seconds = emulator_seconds()
        try:
            words = dict(word.split("=", 1) for word in text.split())
            if words["phase"] == "start":
                self.source = words["source"]
                say(f"a program reads {words['hot']} of its {words['total']} MiB at random, its hot pages; "
                    "all of it is slow memory")
            elif words["phase"] == "end":
                self.end_ms = int(words["ms"])
                self.now["mib"], self.now["samples"] = int(words["promoted"]) * PAGE_MIB, int(words["samples"])
            else:
                hot, hot_all, cold, cold_all = (int(n) for key in ("hot", "cold") for n in words[key].split("/"))
                self.now = {"hot": hot / hot_all, "cold": cold / cold_all, "mib": int(words["promoted"]) * PAGE_MIB,
                            "samples": int(words["samples"]), "sec": int(words["sec"])}
                self.show(words["phase"], int(words["accesses"]), seconds)
        except (KeyError, TypeError, ValueError, ZeroDivisionError):
            return

    def show(self, phase, reads, seconds):
        if phase != self.phase:
            self.close()
            if phase == "run":
                say(f"pghotd starts; it learns from {SOURCE_NAMES.get(self.source, self.source)}")
            elif phase == "after":
                say("it goes on watching" + (", with fewer samples" if self.source == "ibs" else ""))
            self.phase = phase
        speed = 0.0
        if self.last and seconds > self.last[1]:
            speed = (reads - self.last[0]) / (seconds - self.last[1])
        if speed and self.last[2] == phase:
            self.speeds.setdefault(phase, []).append(speed)
        self.last = (reads, seconds, phase)
        full = int(self.now["hot"] * BAR + 0.5)
        self.draw(f"{self.now['sec']:3d} s  near [{'#' * full}{'.' * (BAR - full)}] {self.now['hot'] * 100:3.0f} %"
                  # The guest asks for these while pghotd works, see guest/demo.sh.
                  + (f"  {self.now['samples']:6d} samples  {self.now['mib']:4.1f} MiB moved" if phase == "run" else "")
                  + (f"  {speed / 1e6:4.2f} M reads/s" if speed else ""))

    def sum_up(self):
        if not self.now:
            return
        say(f"hot pages near {self.now['hot'] * 100:.1f} %, cold pages near {self.now['cold'] * 100:.1f} %, "
            f"{self.now['mib']:.1f} MiB promoted by {self.now['samples']} samples"
            + (f", 95 % after {self.end_ms / 1000:.0f} s of guest time" if self.end_ms else ""))
        if self.source != "ibs":
            say("the reads a second say nothing of memory: in this machine near and far are alike")
        elif len(self.speeds) > 1:
            # Medians: now and then the emulator has other work. By the time that it had, see emulator_seconds().
            far, near = (statistics.median(self.speeds.get(phase, [0.0])) for phase in ("before", "after"))
            if far and near:
                say(f"the program's speed: {far / 1e6:.2f} M reads/s with its hot pages far, {near / 1e6:.2f} M reads/s "
                    f"with them near, {near / far:.1f} times as fast")

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


def can_sample(cache):
    """Builds what the emulated IBS needs, unless it is there. Where that fails, says why."""
    have = labcache.current_set(cache)
    if have is None:
        return True  # the boot says so
    scratch = tempfile.mkdtemp(prefix="pghotd-lab-ibs-")
    try:
        with labcache.Lock(cache, "lock", False, 600):
            labibs.build(cache, *have, scratch)
        return True
    except (LabError, OSError, subprocess.SubprocessError) as error:
        say(f"no emulated IBS on this machine, so hint faults have to do: {error}")
        return False
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def demo(cache, options):
    screen = Screen()
    started = time.monotonic()
    if not options.ibs and can_sample(cache):
        options.ibs = IBS
    say("booting an emulated machine with a fast and a slow memory tier (about 10 s)")
    test = labvm.Test(os.path.join(labvm.LAB, "guest", "demo.sh"))
    try:
        run, out = labvm.boot_tests(cache, options, [test], False, screen.line)
    finally:
        screen.close()
    screen.sum_up()
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
