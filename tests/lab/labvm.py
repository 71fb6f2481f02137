# SPDX-License-Identifier: GPL-2.0-or-later
"""Boots the machine, follows its tests.

The guest has two serial lines. The first is its console, kept for when something
goes wrong. The second carries one line per event (guest/init and guest/lib.sh write
them, Run.event() reads them); both land in plain files that the host follows, so
neither side ever waits for the other. Logs come back through a shared folder.
"""
import os
import shutil
import subprocess
import sys
import tempfile
import time

import labcache
import labdebian
import labimage
from ibs import labibs
from labcache import LabError, say
from labimage import LAB, read

TEST_SECONDS = 60  # of guest time, where a test does not say
BOOT_SECONDS = 180  # of host time until the guest's first event
# A bound that the guest keeps itself may take longer for the host: what it gets done between two looks counts, see init.
HOST_FACTOR = 2
GRACE_SECONDS = 60  # beyond a test's own bound, which the guest keeps itself
# With a host thread for each CPU, emulators before 8.1 now and then run kernel code
# that was patched meanwhile, and the guest dies of "Oops: int3". Opening the first
# event of a kind and switching NUMA balancing on both patch code; it happened about
# once in a few hundred such steps. One thread for all CPUs was little slower.
EMULATION = "tcg,thread=single"

# name: (memory of each node in MiB, HMAT latency of each in ns or None, what it is)
# Node 0 has the CPUs. It stays at 1024 MiB: with more than that free the kernel
# promotes on its own even at a rate limit of 0.
MACHINES = {
    "two-tier": ((1024, 512), (100, 300), "a fast node with the CPUs, a slow node without"),
    "one-node": ((1024,), None, "no slow memory at all"),
    "no-hmat": ((1024, 512), None, "two nodes that the kernel takes for one tier"),
    "two-far": ((1024, 512, 512), (100, 300, 500), "a fast node and two slow ones, two tiers"),
    "counted": ((1024, 512), (100, 300), "as two-tier, and its clock counts instructions"),
    "debian": ((1024, 512), (100, 300), "as two-tier, with systemd; its slow memory is not online yet"),
}
# The first program of a machine that has a whole Debian, and the nodes whose memory is plugged in, as CXL memory may be:
# the kernel doesn't use it before it is told to.
DEBIAN = {"debian": "debian-init"}
PLUGGED = {"debian": (1,)}
DEBIAN_BOOT_FACTOR = 4
# The clock advances 8 ns with each instruction of a CPU, so that times are those of the guest's own work, whatever else
# the host does. The CPUs take turns, each until a timer is due.
COUNTED = {"counted": ["-icount", "shift=3,sleep=off"]}


# ---- tests ---------------------------------------------------------------------

class Test:
    """A guest test; its head comments say what it is and what it needs."""

    def __init__(self, path):
        self.path = path
        self.name = os.path.splitext(os.path.basename(path))[0]
        self.what, self.machine, self.seconds, self.needs = "", "two-tier", TEST_SECONDS, []
        self.ibs, self.modules = None, []
        with open(path, encoding="utf-8") as file:
            for line in file:
                if line.startswith("#!"):
                    continue
                if not line.startswith("#"):
                    break
                text = line[1:].strip()
                key, _, value = text.partition(":")
                value = value.strip()
                if key == "machine":
                    self.machine = value
                elif key == "timeout":
                    self.seconds = int(value)
                elif key == "needs":
                    self.needs = value.split()
                elif key == "modules":
                    self.modules = value.split()
                elif key == "ibs":
                    self.ibs = value
                elif not self.what and not text.startswith("shellcheck"):
                    self.what = text
        if self.machine not in MACHINES:
            raise LabError(f"{path}: there is no machine '{self.machine}'", 64)


def all_tests():
    folder = os.path.join(LAB, "tests")
    return {test.name: test for test in
            (Test(os.path.join(folder, name)) for name in sorted(os.listdir(folder))
             if name.endswith(".sh"))}


def list_tests():
    for test in all_tests().values():
        say(f"{test.name:<12} {test.machine:<9} {test.seconds:>4} s  {test.what}")


def find_tests(names):
    known, found = all_tests(), []
    for name in names:
        if name not in known:
            raise LabError(f"there is no test '{name}' (see: lab list)", 64)
        if known[name] not in found:
            found.append(known[name])
    return found


# ---- the machine ---------------------------------------------------------------

def machine_arguments(name, mem, smp):
    sizes, latencies, _ = MACHINES[name]
    if mem:
        try:
            given = tuple(int(word) for word in mem.split(","))
        except ValueError:
            given = ()
        if len(given) != len(sizes) or min(given) < 128:
            raise LabError(f"--mem wants {len(sizes)} sizes of at least 128 MiB for '{name}'", 64)
        sizes = given
    hmat = ",hmat=on" if latencies else ""
    plugged = PLUGGED.get(name, ())
    fixed = sum(size for node, size in enumerate(sizes) if node not in plugged)
    slots = f",slots={len(plugged)},maxmem={sum(sizes) + 1024}M" if plugged else ""
    words = ["-machine", "q35" + hmat, "-m", f"{fixed}M{slots}", "-smp", str(smp)]
    for node, size in enumerate(sizes):
        words += ["-object", f"memory-backend-ram,id=m{node},size={size}M"]
        numa = f"node,nodeid={node}" + (f",memdev=m{node}" if node not in plugged else "")
        if node == 0:
            numa += f",cpus=0-{smp - 1}"
        elif latencies:
            numa += ",initiator=0"
        words += ["-numa", numa]
        if node in plugged:
            words += ["-device", f"pc-dimm,id=d{node},memdev=m{node},node={node}"]
    for node in range(1, len(sizes)):
        for other in range(node):
            words += ["-numa", f"dist,src={other},dst={node},val={30 + 20 * node}"]
    for node, latency in enumerate(latencies or ()):
        lb = f"hmat-lb,initiator=0,target={node},hierarchy=memory,data-type="
        words += ["-numa", f"{lb}access-latency,latency={latency}",
                  "-numa", f"{lb}access-bandwidth,bandwidth={2000 // latency}G"]
    return words


def find_ibs(options, tests):
    """What --ibs or the tests ask for, as labibs.Spec; None for a plain machine."""
    wanted = {test.ibs for test in tests}
    text = getattr(options, "ibs", None)
    if not text:
        if len(wanted) > 1:
            raise LabError("these tests need different kinds of IBS: boot them one by one, "
                           "or name one kind with --ibs", 64)
        text = tests[0].ibs
    return labibs.Spec(text) if text else None


# The flags after a cmpxchg16b have bits of its operands in them here, the single-step flag among others. The next one to
# change flags sets that right, but an interrupt in between takes them along, and the kernel dies of debug exceptions.
CPU_WITHOUT = ",-cx16"


def qemu_command(folder, stamp, machine, options, files, ibs=None):
    root = os.path.join(folder, "qemu")
    paths = ":".join(os.path.join(root, sub) for sub in
                     ("lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu"))
    words = [os.path.join(root, "lib/x86_64-linux-gnu/ld-linux-x86-64.so.2"),
             "--library-path", paths, os.path.join(root, "usr/bin/qemu-system-x86_64"),
             "-L", os.path.join(root, "usr/share/qemu"),
             "-L", os.path.join(root, "usr/share/seabios")]
    words += machine_arguments(machine, options.mem, options.smp) + COUNTED.get(machine, [])
    model = (getattr(options, "cpu", None) or "max") + CPU_WITHOUT + (labibs.CPU_WITHOUT if ibs else "")
    words += ["-accel", options.accel, "-cpu", model, "-nodefaults", "-no-user-config",
              "-display", "none", "-monitor", "none", "-no-reboot",
              "-chardev", f"file,id=console,path={comma(files['console'])}",
              "-serial", "chardev:console",
              "-chardev", f"file,id=events,path={comma(files['events'])}",
              "-serial", "chardev:events",
              "-fsdev", f"local,id=out,path={comma(files['logs'])},security_model=none",
              "-device", "virtio-9p-pci,fsdev=out,mount_tag=out",
              "-kernel", os.path.join(folder, "kernel", "boot", "vmlinuz-" + stamp["release"]),
              "-initrd", files["initramfs"],
              "-append", ("memhp_default_state=offline " if machine in PLUGGED else "") +
                         "console=ttyS0 panic=-1 loglevel=5 audit=0 no_timer_check random.trust_cpu=on "
                         "mitigations=off " + options.append]
    if ibs:
        sizes, latencies, _ = MACHINES[machine]
        words += labibs.machine_arguments(ibs, files["ibs"], latencies, len(sizes),
                                          files["scratch"], files["out"])
    return words + options.qemu_arg, os.path.join(root, "usr/lib/x86_64-linux-gnu/qemu")


def comma(path):
    return path.replace(",", ",,")


class Follower:
    """Whole new lines of a file that something else writes."""

    def __init__(self, path):
        self.file, self.rest = open(path, "rb"), b""

    def lines(self):
        data = self.rest + self.file.read()
        *whole, self.rest = data.split(b"\n")
        for line in whole:
            text = line.decode(errors="replace").rstrip("\r")
            yield "".join(c if c.isprintable() else "?" for c in text)


class Run:
    """One machine from start to end."""

    def __init__(self, tests, out, show, live):
        self.tests, self.show, self.live = tests, show, live
        self.results = open(os.path.join(out, "results.txt"), "w", encoding="utf-8")
        self.passed = self.failed = self.skipped = 0
        self.current, self.lines_of_current = None, 0
        self.not_started = [test.name for test in tests]
        self.finished = False
        self.deadline, self.waiting_for = time.monotonic() + BOOT_SECONDS, "the boot"

    def verdict(self, kind, text):
        if kind == "ok":
            self.passed += 1
        elif kind == "skip":
            self.skipped += 1
        else:
            self.failed += 1
        self.lines_of_current += 1
        line = f"{kind} {text}"
        self.results.write(line + "\n")
        self.results.flush()
        if self.show:
            say(line)

    def event(self, line):
        word, _, rest = line.partition(" ")
        now = time.monotonic()
        if word == "ok" or word == "skip":
            self.verdict(word, rest)
        elif word == "not" and rest.startswith("ok "):
            self.verdict("not ok", rest[3:])
        elif word == "live":
            if self.live:
                self.live(rest)
        elif word == "note":
            self.results.write(f"# {rest}\n")
            if self.show:
                say(f"# {rest}")
        elif word == "boot":
            self.deadline, self.waiting_for = now + GRACE_SECONDS, "the first test"
            self.results.write(f"# booted in {rest} s of guest time\n")
        elif word == "start":
            name, _, seconds = rest.partition(" ")
            self.current, self.lines_of_current = name, 0
            if name in self.not_started:
                self.not_started.remove(name)
            self.deadline = now + HOST_FACTOR * float(seconds) + GRACE_SECONDS
            self.waiting_for = f"the test {name}"
        elif word == "end" and self.current:
            self.end_of_test(rest)
            self.deadline, self.waiting_for = now + GRACE_SECONDS, "the next test"
        elif word == "done":
            self.finished = True
            self.deadline, self.waiting_for = now + GRACE_SECONDS, "the shutdown"

    def end_of_test(self, rest):
        _, status, seconds = (rest.split() + ["?", "?"])[:3]
        name = self.current
        if status != "0":
            why = "took too long" if status == "timeout" else f"ended with status {status}"
            self.verdict("not ok", f"{name}: {why}")
        elif not self.lines_of_current:
            self.verdict("not ok", f"{name}: ended without a result")
        self.results.write(f"# {name} took {seconds} s of guest time\n")
        self.current = None

    def close(self, why):
        """Whatever the guest did not come to is a failure, with the reason."""
        if self.current:
            self.verdict("not ok", f"{self.current}: {why}")
        for name in self.not_started:
            self.verdict("not ok", f"{name}: never ran: {why}")
        if not self.finished and not self.current and not self.not_started:
            self.verdict("not ok", f"machine: {why}")
        self.results.close()


def last_lines(path, count):
    try:
        text = read(path).decode(errors="replace").replace("\r", "")
    except LabError:
        return []
    return ["".join(c if c.isprintable() or c == "\t" else "?" for c in line)
            for line in text.splitlines()[-count:]]


def follow(command, module_folder, files, run, bound):
    """Run the emulator to its end or to a bound; the reason why it ended early, or None."""
    for name in ("console", "events"):
        with open(files[name], "wb"):
            pass
    environment = {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "QEMU_MODULE_DIR": module_folder}
    events = Follower(files["events"])
    why = None
    with open(files["qemu"], "wb") as log:
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                 env=environment, preexec_fn=labcache.tie_to_parent)
    try:
        while True:
            gone = child.poll() is not None
            for line in events.lines():
                run.event(line)
            now = time.monotonic()
            if gone:
                break
            if now > bound:
                why = "the time of the whole run is up"
            elif now > run.deadline:
                why = f"the machine hangs in {run.waiting_for}"
            if why:
                break
            time.sleep(0.05)
    finally:
        if child.poll() is None:
            child.kill()
        child.wait()
    if why is None and not run.finished:
        panic = any("Kernel panic" in line for line in last_lines(files["console"], 80))
        why = "kernel panic" if panic else f"the machine went away (status {child.returncode})"
    return why


def boot_tests(cache, options, tests, show=True, live=None):
    """Boot one machine for these tests. Returns (Run, folder with everything it left)."""
    machines = {test.machine for test in tests}
    machine = getattr(options, "machine", None) or tests[0].machine
    for test in tests:
        if test.machine != machine:
            raise LabError(f"the test {test.name} needs --machine {test.machine}"
                           + (", boot it by itself" if len(machines) > 1 else ""), 64)
    ibs = find_ibs(options, tests)
    if not 1 <= options.smp <= 16:
        raise LabError("--smp wants 1 to 16", 64)
    if machine in DEBIAN and not getattr(options, "tree", None):
        raise LabError(f"the machine {machine} has pghotd installed: --tree wants what "
                       "'meson install -C build --destdir DIR' made", 64)
    if not os.path.isdir(cache) or labcache.current_set(cache) is None:
        raise LabError(f"the lab's cache {cache} is empty: run 'lab fetch' first", 77)
    with labcache.Lock(cache, "lock", False, 600):
        folder, stamp = labcache.current_set(cache)
        if options.out:
            labcache.make_folder(options.out)
            out = os.path.abspath(options.out)
        else:
            out = tempfile.mkdtemp(prefix="pghotd-lab-")
        scratch = tempfile.mkdtemp(prefix="pghotd-lab-work-")
        try:
            files = {"console": os.path.join(out, "console.txt"),
                     "events": os.path.join(out, "events.txt"),
                     "qemu": os.path.join(out, "qemu.txt"),
                     "logs": os.path.join(out, "logs"),
                     "initramfs": os.path.join(scratch, "initramfs"),
                     "scratch": scratch, "out": out}
            shutil.rmtree(files["logs"], ignore_errors=True)
            os.mkdir(files["logs"])
            programs = labimage.find_programs(options, tests, scratch, folder)
            more = ()
            if ibs:
                files["ibs"] = labibs.build(cache, folder, stamp, scratch)
                more = labibs.guest_files(ibs, files["ibs"])
            base = labdebian.base_archive(cache, folder, stamp) if machine in DEBIAN else labimage.base_archive(folder, stamp)
            archive = labimage.Archive(labdebian.place) if machine in DEBIAN else labimage.Archive()
            tree = options.tree if machine in DEBIAN else None
            with open(files["initramfs"], "wb") as file:
                file.write(base)
                file.write(labimage.run_archive(archive, DEBIAN.get(machine, "init"), options, tests, programs, stamp,
                                                folder, more, tree))
            command, module_folder = qemu_command(folder, stamp, machine, options, files, ibs)
            boot_seconds = BOOT_SECONDS * (labibs.BOOT_FACTOR if ibs else DEBIAN_BOOT_FACTOR if machine in DEBIAN else 1)
            seconds = options.timeout or HOST_FACTOR * sum(test.seconds for test in tests) + boot_seconds
            run = Run(tests, out, show, live)
            run.deadline = time.monotonic() + boot_seconds
            why = "interrupted"
            try:
                why = follow(command, module_folder, files, run, time.monotonic() + seconds)
            finally:
                run.close(why or "the machine ended early")
            if why:
                explain(why, files)
        except BaseException:
            if not options.out:
                shutil.rmtree(out, ignore_errors=True)
            raise
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
            if os.path.isdir(out):
                labcache.give_back(out)
    return run, out


def explain(why, files):
    say(f"lab: {why}; the console's last lines:")
    for line in last_lines(files["console"], 40):
        say(f"    {line}")
    for line in last_lines(files["qemu"], 5):
        say(f"    emulator: {line}")


def boot(cache, options):
    tests = find_tests(options.tests)
    live, close = None, None
    if options.live == "-":
        live = say
    elif options.live:
        close = open(options.live, "a", encoding="utf-8")

        def live(text):
            close.write(text + "\n")
            close.flush()
    try:
        run, out = boot_tests(cache, options, tests, True, live)
    finally:
        if close:
            close.close()
    say(f"{run.passed} passed, {run.failed} failed, {run.skipped} skipped")
    if run.failed:
        print(f"lab: results and logs are in {out}", file=sys.stderr)
        return 1
    if not options.out:
        shutil.rmtree(out, ignore_errors=True)
    return 0
