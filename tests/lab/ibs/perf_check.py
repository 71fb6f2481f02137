#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Compares the daemon's IBS decoder with perf's, field by field, on records that vary them all.

perf records injected registers in a machine of the lab; `perf report -D` here and ibs_dump then take the
same file apart. perf comes from the distribution, into the lab's cache (--fetch, once); nothing is installed.
"""
import argparse
import collections
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
sys.path.insert(0, os.path.dirname(HERE))

import labcache  # noqa: E402
import labvm     # noqa: E402
from ibs import labibs  # noqa: E402
from labcache import LabError, say  # noqa: E402

RECORDS = 1500          # for each word of capabilities; there are eight in perf_record.sh
RECORDS_AT_LEAST = 10000
REPORT_SECONDS = 300
GUEST_CPU = "EPYC-Milan"
IDENTITY = rb"AuthenticAMD,\d+,\d+,\d+\0"
IDENTITY_BYTES = 64     # NAME_ALIGN of tools/perf/util/header.c
# Which processor the file claims to come from decides about errata, so each is read as several.
READ_AS = {
    "old.data": (("Zen 3 server", 25, 1), ("Zen 2", 23, 49), ("Zen 3 desktop", 25, 33)),
    "new.data": (("Zen 4 server", 25, 17), ("Zen 5", 26, 2), ("Zen 4 desktop", 25, 97), ("Zen 3 server", 25, 1)),
}
DATA2_SOURCE = 0xc7     # with Zen 4's extensions
CAP_BRANCH_TARGET, CAP_ZEN4, CAP_DTLB_PAGE_SIZE = 1 << 5, 1 << 11, 1 << 19

# perf's name of a bit: (our word, the bit in it). TLB bits, L2Miss, RmtNode and CacheHitSt are below.
BITS = {
    "En": ("control_flags", 17), "Val": ("control_flags", 18), "CntCtl": ("control_flags", 19),
    "OpReturn": ("op_flags", 2), "OpBrnTaken": ("op_flags", 3), "OpBrnMisp": ("op_flags", 4), "BrnRet": ("op_flags", 5),
    "RipInvalid": ("op_flags", 6), "BrnFuse": ("op_flags", 7), "Microcode": ("op_flags", 8),
    "LdOp": ("access_flags", 0), "StOp": ("access_flags", 1), "DcMiss": ("access_flags", 7),
    "DcMisAcc": ("access_flags", 8), "DcWcMemAcc": ("access_flags", 13), "DcUcMemAcc": ("access_flags", 14),
    "DcLockedOp": ("access_flags", 15), "DcMissNoMabAlloc": ("access_flags", 16),
    "DcLinAddrValid": ("access_flags", 17), "DcPhyAddrValid": ("access_flags", 18), "SwPf": ("access_flags", 21),
}
TLB_BITS = {"DcL1TlbMiss": 2, "DcL2TlbMiss": 3, "DcL1TlbHit2M": 4, "DcL1TlbHit1G": 5, "DcL2TlbHit2M": 6,
            "DcL2TlbHit1G": 19}
# Numbers that perf prints whatever the record says.
NUMBERS = {"MaxCnt": "max_count", "CurCnt": "current_count", "CompToRetCtr": "completion_to_retire_cycles",
           "TagToRetCtr": "tag_to_retire_cycles", "TlbRefillLat": "refill_latency_cycles"}
# Registers as a whole, printed when they are valid.
WHOLE = {"IbsOpRip": "rip", "IbsDCLinAd": "linear", "IbsDCPhysAd": "physical"}
# In the words of perf 6.1 and of later ones.
SOURCES = {"(reserved)": "reserved", "Local node cache": "local_cache", "Remote node cache": "peer_cache_far",
           "DRAM": "dram", "Other": "other_io", "Local L3 or other L1/L2 in CCX": "l3",
           "A peer cache in a near CCX": "peer_cache_near", "Another CCX cache in the same NUMA node": "peer_cache_near",
           "A peer cache in a far CCX": "peer_cache_far",
           "Another CCX cache in a different NUMA node": "peer_cache_far",
           "Data returned from DRAM": "dram", 'DRAM address map with "long latency" bit set': "pmem",
           "Long-latency DIMM": "pmem", "Data returned from MMIO/Config/PCI/APIC": "mmio",
           "MMIO/Config/PCI/APIC": "mmio", "Extension Memory (S-Link, GenZ, etc)": "ext_mem",
           "Extension Memory": "ext_mem", "Peer Agent Memory": "peer_agent",
           "Coherent Memory of a different processor type": "peer_agent"}


# ---- perf, from the distribution into the cache --------------------------------------

def perf_packages(cache):
    """linux-perf and the libraries it may be linked with."""
    kept = [package for package in labcache.with_dependencies(cache, ("linux-perf",))
            if package[0] in ("linux-perf", "zlib1g") or re.match(r"lib(?!.*-(stdlib|minimal|common)$)", package[0])]
    if not any(package[0] == "linux-perf" for package in kept):
        raise LabError("apt names no file for linux-perf")
    return kept


def closure(root):
    """{file name: path} of what perf needs to run, by the loader that came with it."""
    folders = [os.path.join(root, sub) for sub in ("lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu")]
    loader = os.path.realpath(os.path.join(folders[0], "ld-linux-x86-64.so.2"))
    perf = os.path.join(root, "usr", "bin", "perf")
    done = subprocess.run([loader, "--library-path", ":".join(folders), "--list", perf], capture_output=True,
                          text=True, timeout=60, stdin=subprocess.DEVNULL, check=False)
    if done.returncode or "not found" in done.stdout:
        raise LabError("perf does not have all of its libraries")
    found = {"ld.so": loader, "perf": perf}
    for name, path in re.findall(r"^\s*(\S+) => (\S+) \(0x", done.stdout, re.M):
        if not path.startswith(root):
            raise LabError(f"perf would take {path} of this machine")
        found["lib/" + os.path.basename(name)] = os.path.realpath(path)
    return found


def take_perf(unpacked, new):
    os.makedirs(os.path.join(new, "lib"))
    for name, path in closure(unpacked).items():
        shutil.copy(path, os.path.join(new, name))


def cached_perf(cache):
    """The folder, and perf's version as its package has it."""
    try:
        folder, names = labcache.find_aside(cache, "perf")
        return folder, next(name for name in names if name.startswith("linux-perf_"))
    except (OSError, ValueError, KeyError, StopIteration) as error:
        raise LabError("perf is not in the lab's cache: run tests/lab/ibs/perf_check.py --fetch", 77) from error


# ---- recording -----------------------------------------------------------------------

def build(folder, scratch):
    """(ibs_inject, ibs_dump): of a meson build when it has them, else built here."""
    found = []
    more = {"ibs_inject": [], "ibs_dump": ["-I", os.path.join(ROOT, "include"),
                                           os.path.join(ROOT, "src", "ibs_decode.c"),
                                           os.path.join(ROOT, "src", "ibs_decode_learn.c")]}
    for name, words in more.items():
        built = os.path.join(folder or "", "tests", "lab", name)
        if not folder or not os.path.exists(built):
            built = os.path.join(scratch, name)
            labibs.run([*labibs.compiler().split(), *labibs.WARNINGS, "-O2", "-o", built,
                        os.path.join(HERE, name + ".c"), *words], name + ".c")
        found.append(built)
    return found


def record(cache, perf, inject, options, scratch):
    """Boot, record; the folder with perf's files. The guest's verdicts are printed as they come."""
    archive = os.path.join(scratch, "perf.tar")
    with tarfile.open(archive, "w") as file:
        file.add(perf, "perf")
    records = os.path.join(scratch, "records")
    with open(records, "w", encoding="ascii") as file:
        file.write(f"{options.records}\n")
    out = options.out or os.path.join(scratch, "out")
    machine = argparse.Namespace(
        bin=[f"ibs_inject={inject}"], file=[f"{archive}:/perf.tar", f"{records}:/lab/perf-records"], module=[], mem=None,
        smp=2, accel=labvm.EMULATION, cpu=GUEST_CPU, ibs=None, append="", qemu_arg=[], timeout=None, out=out,
        machine=None)
    test = labvm.Test(os.path.join(HERE, "perf_record.sh"))
    run, _ = labvm.boot_tests(cache, machine, [test])
    return run, os.path.join(out, "logs", test.name)


def pretend(path, target, family, model):
    """A copy that claims to come from another processor."""
    with open(path, "rb") as file:
        data = file.read()
    places = [match.start() for match in re.finditer(IDENTITY, data)]
    if len(places) != 1:
        raise LabError(f"{os.path.basename(path)} names the processor {len(places)} times, not once")
    identity = b"AuthenticAMD,%d,%d,1\0" % (family, model)
    at = places[0]
    with open(target, "wb") as file:
        file.write(data[:at] + identity.ljust(IDENTITY_BYTES, b"\0") + data[at + IDENTITY_BYTES:])


# ---- reading -------------------------------------------------------------------------

def read_perf(perf, path, scratch):
    """{offset in the file: {perf's name of a field: its value}} for every sample."""
    words = [os.path.join(perf, "ld.so"), "--library-path", os.path.join(perf, "lib"), os.path.join(perf, "perf"),
             "report", "-D", "-f", "-i", path]
    with open(os.path.join(scratch, "perf-report.txt"), "w+b") as file:
        done = subprocess.run(words, stdout=file, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, cwd=scratch,
                              env={"PATH": "/usr/bin:/bin", "LC_ALL": "C", "HOME": scratch}, timeout=REPORT_SECONDS,
                              check=False)
        if done.returncode:
            raise LabError(f"perf report ended with status {done.returncode}: {done.stderr.decode()[-200:]}")
        file.seek(0)
        found, now = {}, None
        for line in file:
            event = re.match(rb"0x([0-9a-f]+)(?:@\S+)? \[0x[0-9a-f]+\]: event: (\d+)", line)
            if event:
                now = found.setdefault(int(event[1], 16), {}) if event[2] == b"9" else None
            elif now is not None and line[:3] in (b"ibs", b"Ibs"):
                read_register(line.decode(), now)
    return found


def read_register(line, fields):
    name, _, rest = line.rstrip("\n").partition(":\t")
    value, _, rest = rest.partition(" ")
    fields[name] = int(value, 16)
    source = re.search(r"DataSrc (\d+)=(.*)$", rest)
    if source:
        fields["DataSrc"], fields["DataSrcName"] = int(source[1]), source[2]
        rest = rest[:source.start()]
    for key, number in re.findall(r"(\w+)\s+(\d+)", rest):
        fields[key] = int(number)


def read_ours(dump, path, family, model):
    done = subprocess.run([dump, path, str(family), str(model)], capture_output=True, text=True, timeout=60,
                          stdin=subprocess.DEVNULL, check=False)
    if done.returncode:
        raise LabError(f"ibs_dump: {done.stderr.strip()}")
    found = {}
    for line in done.stdout.splitlines():
        words = dict(word.partition("=")[::2] for word in line.split(" "))
        fields = {key: value if key in ("source", "refused") else int(value, 16) for key, value in words.items()
                  if "=" in line}
        found[fields.pop("offset")] = fields
    return found


# ---- comparing -----------------------------------------------------------------------

def expected_source(perf, extended):
    """What perf's fields come to, in the order of perf_ibs_get_mem_lvl()."""
    code = perf.get("DataSrc", 0)
    if not perf["LdOp"] and not perf["StOp"]:
        return "none"
    if perf["DcUcMemAcc"] and code != 7:
        return "uncached"
    if not perf["DcMiss"]:
        return "l1"
    if perf.get("L2Miss") == 0:
        return "l2"
    name = "none"
    if perf["LdOp"]:
        if code:
            name = SOURCES.get(perf["DataSrcName"], perf["DataSrcName"])
        elif extended and perf.get("ibs_op_data2", 0) & DATA2_SOURCE:
            name = "reserved"   # perf names none above 12
    return "line_fill" if perf["DcMissNoMabAlloc"] and name in ("none", "reserved") else name


def compare(perf, ours, family, model):
    """(perf's field, what it says, what we say) for each that perf printed or left out as not valid."""
    caps = ours["caps"]
    for name, (word, bit) in BITS.items():
        if name in perf:
            yield name, perf[name], ours[word] >> bit & 1
    yield "L3MissOnly", perf.get("L3MissOnly", 0), ours["control_flags"] >> 16 & 1
    for name, word in NUMBERS.items():
        yield name, perf[name], ours[word]
    for name, word in WHOLE.items():
        if name in perf:
            yield name, perf[name], ours[word]
    if perf["BrnRet"] and caps & CAP_BRANCH_TARGET:
        yield "IbsBrTarget", perf.get("IbsBrTarget", 0), ours["branch_target"]
    yield "L2Miss", perf.get("L2Miss", 0), ours["access_flags"] >> 20 & 1
    yield "OpMemWidth", perf.get("OpMemWidth", 0), ours["width_bytes"]
    yield "OpDcMissOpenMemReqs", perf.get("OpDcMissOpenMemReqs", 0), ours["open_requests"]
    has_latency = perf["LdOp"] and perf["DcMiss"] and not perf["DcUcMemAcc"] and not perf["SwPf"]
    yield "DcMissLat", perf["DcMissLat"] if has_latency else 0, ours["miss_latency_cycles"]
    yield from compare_tlb(perf, ours, caps)
    yield from compare_source(perf, ours, caps, family, model)


def compare_tlb(perf, ours, caps):
    has_physical = perf["DcPhyAddrValid"]
    for name, bit in TLB_BITS.items():
        value = perf[name]
        # Newer than perf 6.1: two of the bits are the size of the page, the other two are free.
        if caps & CAP_DTLB_PAGE_SIZE:
            value = value if name.endswith("Miss") and has_physical else 0
        yield name, value, ours["access_flags"] >> bit & 1
    if caps & CAP_DTLB_PAGE_SIZE:
        shift = (12, 21, 30, 0)[perf["DcL1TlbHit1G"] << 1 | perf["DcL1TlbHit2M"]] if has_physical else 0
    elif perf["DcL1TlbHit1G"] or perf["DcL2TlbHit1G"]:
        shift = 30
    else:
        shift = 21 if perf["DcL1TlbHit2M"] or perf["DcL2TlbHit2M"] else 0
    yield "page size", shift, ours["page_shift"]


def compare_source(perf, ours, caps, family, model):
    extended = bool(caps & CAP_ZEN4)
    code = ours["source_code"]
    # perf names none above 12, and not 0
    unnamed = "above 12" if extended and perf.get("ibs_op_data2", 0) & DATA2_SOURCE else 0
    yield "DataSrc", perf.get("DataSrc", unnamed), "above 12" if code > 12 else code
    source = expected_source(perf, extended)
    yield "source", source, ours["source"]
    is_memory = source == "dram" or (extended and source in ("pmem", "ext_mem"))
    yield "RmtNode", perf.get("RmtNode", 0) if is_memory else 0, ours["source_flags"] >> 4 & 1
    # perf_ibs_cache_hit_st_valid() of the kernel; perf prints it regardless
    has_state = family != 25 or 0x10 <= model <= 0x1f or model >= 0x60
    is_cache = source in (("l3", "peer_cache_near", "peer_cache_far") if extended else ("local_cache",))
    yield ("CacheHitSt", perf.get("CacheHitSt", 0) if is_cache and has_state else 0,
           ours["source_flags"] >> 5 & 1)


class Cases:
    def __init__(self, run):
        self.passed, self.failed, self.skipped = run.passed, run.failed, run.skipped

    def check(self, name, fault):
        if fault:
            self.failed += 1
            say(f"not ok {name} - {fault}")
        else:
            self.passed += 1
            say(f"ok {name}")


def compare_file(cases, what, perf, ours, family, model, seen):
    """A case for each field of perf's; the number of records compared."""
    cases.check(f"{what}: perf and we see the same samples",
                "" if perf.keys() == ours.keys() else f"perf {len(perf)}, we {len(ours)}")
    refused = [at for at, fields in ours.items() if "refused" in fields or not perf.get(at)]
    cases.check(f"{what}: both decode every sample", "" if not refused else
                f"not {len(refused)}, the first at 0x{refused[0]:x}: {ours[refused[0]].get('refused', 'perf')}")
    counts, wrong, first = collections.Counter(), collections.Counter(), {}
    both = [at for at in sorted(perf.keys() & ours.keys()) if at not in set(refused)]
    for at in both:
        for name, theirs, mine in compare(perf[at], ours[at], family, model):
            counts[name] += 1
            seen[name].add(mine)
            if theirs != mine:
                wrong[name] += 1
                first.setdefault(name, f"at 0x{at:x} (caps 0x{ours[at]['caps']:x}) perf {theirs}, we {mine}")
    for name, count in counts.items():
        cases.check(f"{what}: {name}, {count} records", wrong[name] and f"{wrong[name]} differ, {first[name]}")
    return len(both)


def check(cache, options, scratch):
    cached_perf(cache)
    if labcache.current_set(cache) is None:
        raise LabError(f"the lab's cache {cache} is empty: run 'lab fetch' first", 77)
    with labcache.Lock(cache, "lock", False, 600):
        perf, version = cached_perf(cache)
        inject, dump = build(options.build, scratch)
        run, folder = record(cache, perf, inject, options, scratch)
        cases, seen, records, comparisons = Cases(run), collections.defaultdict(set), 0, 0
        for name, readings in READ_AS.items():
            path = os.path.join(folder, name)
            if not os.path.exists(path):
                cases.check(name, "perf recorded no such file")
                continue
            counts = []
            for what, family, model in readings:
                copy = os.path.join(scratch, name)
                pretend(path, copy, family, model)
                counts.append(compare_file(cases, f"{name} as {what}", read_perf(perf, copy, scratch),
                                           read_ours(dump, copy, family, model), family, model, seen))
            records += min(counts)
            comparisons += sum(counts)
    say(f"# {version}: {records} records, compared as {comparisons}; values seen of each field: "
        + ", ".join(f"{name} {len(values)}" for name, values in seen.items()))
    cases.check(f"at least {RECORDS_AT_LEAST} records", records < RECORDS_AT_LEAST and f"{records}")
    # The two are set in every record, or it isn't one.
    alike = [name for name, values in seen.items() if len(values) < 2 and name not in ("En", "Val")]
    cases.check("every field varies", alike and f"not {', '.join(alike)}")
    missing = sorted(set(SOURCES.values()) - seen["source"])
    cases.check("every source was met", missing and f"not {', '.join(missing)}")
    say(f"{cases.passed} passed, {cases.failed} failed, {cases.skipped} skipped")
    return 1 if cases.failed else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fetch", action="store_true", help="bring perf into the lab's cache, do nothing else")
    parser.add_argument("--cache", metavar="DIR", help="the lab's cache")
    parser.add_argument("--build", metavar="DIR", help="a meson build with ibs_inject and ibs_dump (built here)")
    parser.add_argument("--records", type=int, default=RECORDS, metavar="N",
                        help="for each of eight words of capabilities (%(default)s)")
    parser.add_argument("--out", metavar="DIR", help="what the machine leaves, perf's files among it")
    options = parser.parse_args()
    cache = os.path.abspath(options.cache) if options.cache else labcache.default_cache()

    # A caller that loses patience ends the run as Ctrl-C does.
    def end(number, _frame):
        raise SystemExit(128 + number)

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, end)
    scratch = tempfile.mkdtemp(prefix="pghotd-perf-")
    try:
        if options.fetch:
            labcache.fetch_aside(cache, "perf", perf_packages, take_perf)
            return 0
        return check(cache, options, scratch)
    except LabError as error:
        say(f"perf_check: {error}")
        return error.status
    except subprocess.TimeoutExpired as error:
        say(f"perf_check: {os.path.basename(error.cmd[0])} took more than {error.timeout} s")
        return 1
    except OSError as error:
        say(f"perf_check: {error}")
        return 1
    except KeyboardInterrupt:
        return 130
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
