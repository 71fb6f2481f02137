# SPDX-License-Identifier: GPL-2.0-or-later
"""The lab's IBS: builds the emulator's plugin and the guest's module, adds them to a machine.

See README.md beside this file for what they do. Builds land in the lab's cache, in a
folder whose name is a hash of everything that went into them.
"""
import hashlib
import os
import shutil
import subprocess
import tempfile

import labcache
from labcache import LabError

HERE = os.path.dirname(os.path.abspath(__file__))
# The record of ibs_mprof, which is the daemon's and the module's alike.
RECORD = os.path.join(os.path.dirname(HERE), "..", "..", "include", "ibs_mprof_record.h")
PLUGIN_SOURCES = ("plugin.c", "cache_model.c")
WARNINGS = ("-std=gnu17", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-fno-strict-aliasing")
KERNEL_COMPILER = "x86_64-linux-gnu-gcc-12"
BUILDS_KEPT = 4
BUILD_SECONDS = 300
SHARED_MIB = 16
GUEST_FOLDER = "lab/ibs"
# With these the guest's kernel clears and copies memory byte by byte, which an emulator
# does one byte after the other: eight times the accesses that a page has words.
CPU_WITHOUT = ",-erms,-fsrm"
BOOT_FACTOR = 2  # of the bound of the boot
NAMES = ("ibs_op", "ibs_mprof", "none")

# far_delay_percent makes the far node three times as slow for a random reader as the near
# one, on top of what emulation costs for both; measured with hotset.
FAR_DELAY_PERCENT = 230
CYCLES_PER_NS = 3
PLUGIN_KEYS = {"far_delay_percent": FAR_DELAY_PERCENT, "near_delay_percent": 0,
               "l3_sets": 16384, "l3_ways": 8, "pages": 0}
MODULE_KEYS = ("gen", "caps", "min_period", "ops_per_miss", "strict_period", "swfilt", "wipe_phys", "tagged",
               "far_source", "far_remote", "interval_us", "tell_time")


class Spec:
    """What --ibs NAME[,KEY=VALUE...] asks for."""

    def __init__(self, text):
        self.name, *words = text.split(",")
        self.plugin, self.module = dict(PLUGIN_KEYS), {}
        if self.name not in NAMES:
            raise LabError(f"--ibs wants one of {', '.join(NAMES)}, not '{self.name}'", 64)
        for word in words:
            key, equals, value = word.partition("=")
            if not equals or not value:
                raise LabError(f"--ibs: '{word}' is not KEY=VALUE", 64)
            if key in self.plugin:
                if not value.isdigit():
                    raise LabError(f"--ibs: {key} wants a number, not '{value}'", 64)
                self.plugin[key] = int(value)
            elif key in MODULE_KEYS:
                self.module[key] = value
            else:
                known = ", ".join((*PLUGIN_KEYS, *MODULE_KEYS))
                raise LabError(f"--ibs: there is no key '{key}' (there are: {known})", 64)

    def parameters(self):
        """The module's parameters, one line."""
        return " ".join([f"name={self.name}", *(f"{k}={v}" for k, v in self.module.items())])


# ---- building ------------------------------------------------------------------

def sources():
    found = [os.path.join(HERE, name) for name in sorted(os.listdir(HERE))
             if name.endswith((".c", ".h"))]
    module = os.path.join(HERE, "module")
    return found + [os.path.join(module, name) for name in sorted(os.listdir(module))] + [RECORD]


def build_key(set_folder, stamp):
    """Changes with any source, the kernel, the compiler and how they are used."""
    sum_ = hashlib.sha256()
    for path in [*sources(), os.path.abspath(__file__)]:
        with open(path, "rb") as file:
            sum_.update(os.path.relpath(path, HERE).encode() + b"\0" + file.read() + b"\0")
    sum_.update(os.path.basename(set_folder).encode() + stamp["release"].encode())
    for tool in (compiler(), KERNEL_COMPILER):
        done = subprocess.run([*tool.split(), "--version"], capture_output=True, check=False,
                              stdin=subprocess.DEVNULL)
        sum_.update(done.stdout)
    return sum_.hexdigest()[:16]


def compiler():
    found = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc")
    if not found:
        raise LabError("the lab's IBS needs a C compiler here", 77)
    return found


def run(words, what):
    done = subprocess.run(words, capture_output=True, text=True, errors="replace",
                          stdin=subprocess.DEVNULL, timeout=BUILD_SECONDS, check=False)
    if done.returncode:
        lines = (done.stderr + done.stdout).strip().splitlines() or ["?"]
        line = next((text for text in lines if "error" in text.lower()), lines[-1])
        raise LabError(f"{what} does not build here: {line}")


def build_plugin(target):
    run([*compiler().split(), *WARNINGS, "-O2", "-shared", "-fPIC", "-fvisibility=hidden",
         "-o", os.path.join(target, "plugin.so"),
         *(os.path.join(HERE, name) for name in PLUGIN_SOURCES)], "the emulator's plugin")


def build_reader(path):
    """The witness of the tests: see ibs_read.c."""
    run([*compiler().split(), *WARNINGS, "-O2", "-o", path, os.path.join(HERE, "ibs_read.c")],
        "ibs_read.c")


def build_module(target, set_folder):
    headers = os.path.join(set_folder, "headers", "build")
    if not os.path.exists(os.path.join(headers, "Makefile")):
        raise LabError("the lab's cache has no kernel headers: run 'lab fetch'", 77)
    for tool in ("make", KERNEL_COMPILER):
        if not shutil.which(tool):
            raise LabError(f"the lab's IBS needs {tool} to build the guest's module", 77)
    work = tempfile.mkdtemp(prefix="pghotd-lab-module-")
    try:
        for path in sources():
            if not path.endswith(".py"):
                shutil.copy(path, work)
        # no BTF: it would take pahole and the kernel's own debug data
        run(["make", "-s", "-C", os.path.realpath(headers), f"M={work}",
             "CONFIG_DEBUG_INFO_BTF_MODULES=", "modules"], "the guest's IBS module")
        shutil.copy(os.path.join(work, "pghot_ibs.ko"), target)
        strip = shutil.which("strip")
        if strip:
            subprocess.run([strip, "--strip-debug", os.path.join(target, "pghot_ibs.ko")],
                           stdin=subprocess.DEVNULL, check=False)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def build(cache, set_folder, stamp, scratch):
    """The folder with plugin.so and pghot_ibs.ko, built unless it is there."""
    key = build_key(set_folder, stamp)
    base = os.path.join(cache, "ibs")
    final = os.path.join(base, key)
    if os.path.exists(os.path.join(final, "pghot_ibs.ko")):
        os.utime(final) if os.access(final, os.W_OK) else None
        return final
    if not os.access(cache, os.W_OK):  # one that another user filled
        build_plugin(scratch)
        build_module(scratch, set_folder)
        return scratch
    with labcache.Lock(cache, "ibs.lock", True, 600):
        if os.path.exists(os.path.join(final, "pghot_ibs.ko")):
            return final
        new = final + ".new"
        shutil.rmtree(new, ignore_errors=True)
        labcache.make_folder(new)
        try:
            build_plugin(new)
            build_module(new, set_folder)
            shutil.rmtree(final, ignore_errors=True)
            os.rename(new, final)
        finally:
            shutil.rmtree(new, ignore_errors=True)
            labcache.give_back(base)
        old = sorted((os.path.join(base, name) for name in os.listdir(base)),
                     key=os.path.getmtime)
        for path in old[:-BUILDS_KEPT]:
            shutil.rmtree(path, ignore_errors=True)
    return final


# ---- the machine ---------------------------------------------------------------

def node_lists(spec, latencies, nodes):
    """(delays, latencies) for the plugin, from the machine's latencies in ns."""
    ns = list(latencies or [100] + [300] * (nodes - 1))
    near, far = spec.plugin["near_delay_percent"], spec.plugin["far_delay_percent"]
    span = ns[1] - ns[0] if len(ns) > 1 else 1
    delays = [near] + [far * (each - ns[0]) // span for each in ns[1:]]
    return (":".join(str(each) for each in delays),
            ":".join(str(each * CYCLES_PER_NS) for each in ns))


def machine_arguments(spec, folder, latencies, nodes, scratch, out):
    """The emulator's further arguments."""
    def comma(path):
        return path.replace(",", ",,")

    shared = os.path.join(scratch, "ibs-shared")
    delays, cycles = node_lists(spec, latencies, nodes)
    with open(shared, "wb") as file:
        file.truncate(SHARED_MIB << 20)
    return ["-plugin", f"{comma(os.path.join(folder, 'plugin.so'))},shm={comma(shared)},"
                       f"truth={comma(os.path.join(out, 'ibs-truth.txt'))},"
                       f"delays={delays},latencies={cycles},l3_sets={spec.plugin['l3_sets']},"
                       f"l3_ways={spec.plugin['l3_ways']},pages={spec.plugin['pages']}",
            "-object", f"memory-backend-file,id=ibs,mem-path={comma(shared)},"
                       f"size={SHARED_MIB}M,share=on",
            "-device", "ivshmem-plain,memdev=ibs"]


def guest_files(spec, folder):
    """[(name in the guest, data)]: guest/lib.sh loads the module from there."""
    with open(os.path.join(folder, "pghot_ibs.ko"), "rb") as file:
        module = file.read()
    return [(f"{GUEST_FOLDER}/pghot_ibs.ko", module),
            (f"{GUEST_FOLDER}/parameters", spec.parameters() + "\n")]
