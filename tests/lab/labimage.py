# SPDX-License-Identifier: GPL-2.0-or-later
"""What goes into the guest: busybox, kernel modules, programs with their libraries, tests."""
import hashlib
import lzma
import os
import re
import shutil
import stat
import subprocess

import labcache
from ibs import labibs
from labcache import LabError

LAB = os.path.dirname(os.path.abspath(__file__))
GUEST_MODULES = ("9p", "9pnet_virtio")
LIBRARY_FOLDER = "lib/x86_64-linux-gnu"
# Ours, beside this file, and what they are linked with.
BUILT_PROGRAMS = {"hotset": ("-pthread", "-lnuma"), "outsider": (f"-I{LAB}/../../include",), "page_misses": (), "ring_witness": (), "trouble": ("-static",)}
FETCHED_PROGRAMS = ("redis-server", "redis-benchmark", "redis-cli")


class Archive:
    """A cpio archive in memory (newc), folders made as needed."""

    def __init__(self, place=lambda name: name):
        self.parts, self.folders, self.count, self.place = [], set(), 0, place

    def _entry(self, name, mode, data=b"", device=(0, 0)):
        self.count += 1
        raw = name.encode() + b"\0"
        fields = (self.count, mode, 0, 0, 1, 0, len(data), 0, 0, *device, len(raw), 0)
        head = b"070701" + b"".join(b"%08X" % field for field in fields) + raw
        self.parts += [head, b"\0" * (-len(head) % 4), data, b"\0" * (-len(data) % 4)]

    def folder(self, name, mode=0o755):
        name = self.place(name)
        parent = os.path.dirname(name)
        if parent and parent not in self.folders:
            self.folder(parent)
        if name not in self.folders:
            self.folders.add(name)
            self._entry(name, stat.S_IFDIR | mode)

    def file(self, name, data, mode=0o644):
        name = self.place(name.lstrip("/"))
        if os.path.dirname(name):
            self.folder(os.path.dirname(name))
        self._entry(name, stat.S_IFREG | mode, data.encode() if isinstance(data, str) else data)

    def node(self, name, major, minor):
        self.folder(os.path.dirname(name))
        self._entry(name, stat.S_IFCHR | 0o600, device=(major, minor))

    def link(self, name, target, placed=False):
        """@placed: the name stays as it is."""
        name = name if placed else self.place(name)
        if os.path.dirname(name):
            self.folder(os.path.dirname(name))
        self._entry(name, stat.S_IFLNK | 0o777, target.encode())

    def whole(self):
        self._entry("TRAILER!!!", 0)
        data = b"".join(self.parts)
        return data + b"\0" * (-len(data) % 512)


def read(path):
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise LabError(f"can't read {path}: {error.strerror}") from error


def module_data(path):
    data = read(path)
    return lzma.decompress(data) if path.endswith(".xz") else data


def modules_in_order(modules_folder, names):
    """[(name, data)], what a module depends on before itself; built-in ones are left out."""
    paths, order, done = {}, [], set()
    for folder, _, files in os.walk(os.path.join(modules_folder, "kernel")):
        for file in files:
            if ".ko" in file:
                paths[file.split(".ko")[0].replace("-", "_")] = os.path.join(folder, file)
    builtin = {os.path.basename(line)[:-3].replace("-", "_") for line in
               read(os.path.join(modules_folder, "modules.builtin")).decode().split()}

    def add(name):
        path = name if name.endswith(".ko") else paths.get(name.replace("-", "_"))
        key = os.path.basename(name).split(".ko")[0].replace("-", "_")
        if key in done:
            return
        done.add(key)
        if path is None:
            if key in builtin:
                return
            raise LabError(f"the guest's kernel has no module '{name}'")
        data = module_data(path)
        needs = re.search(rb"\0depends=([^\0]*)\0", data)
        for other in (needs[1].decode().split(",") if needs else []):
            if other:
                add(other)
        order.append((key, data))

    for name in names:
        add(name)
    return order


def add_tree(archive, root):
    """Everything below @root, as root's own. Its files."""
    found = []
    for folder, folders, files in os.walk(root):
        folders.sort()
        for name in sorted(folders + files):
            path = os.path.join(folder, name)
            inner, mode = os.path.relpath(path, root), os.lstat(path).st_mode
            if stat.S_ISLNK(mode):
                archive.link(inner, os.readlink(path))
            elif stat.S_ISDIR(mode):
                archive.folder(inner)
            elif stat.S_ISREG(mode):
                archive.file(inner, read(path), stat.S_IMODE(mode))
                found.append(path)
    return found


def add_own(archive, folder, stamp, busybox):
    """What every machine starts with."""
    archive.file(busybox, read(os.path.join(folder, "qemu", "bin", "busybox")), 0o755)
    modules = modules_in_order(os.path.join(folder, "kernel", "lib", "modules",
                                            stamp["release"]), GUEST_MODULES)
    for name, data in modules:
        archive.file(f"lab/modules/{name}.ko", data)
    archive.file("lab/modules/order", "".join(name + "\n" for name, _ in modules))


def base_archive(folder, stamp):
    """busybox and the modules of every run, built once for a set and a state of this file."""
    key = hashlib.sha256(read(os.path.abspath(__file__))).hexdigest()[:8]
    path = os.path.join(folder, f"base-{key}.cpio")
    if os.path.exists(path):
        return read(path)
    archive = Archive()
    for name in ("bin", "dev", "proc", "sys", "run", "tmp", "etc", "out", "lab", "root", "var",
                 "lib64", "sbin", "usr", LIBRARY_FOLDER):
        archive.folder(name)
    archive.node("dev/console", 5, 1)
    archive.link("usr/bin", "/bin")
    archive.link("usr/sbin", "/bin")
    archive.link("var/run", "/run")
    add_own(archive, folder, stamp, "bin/busybox")
    archive.link("bin/sh", "busybox")
    data = archive.whole()
    try:
        for name in os.listdir(folder):
            if name.startswith("base-"):
                os.unlink(os.path.join(folder, name))
        labcache.write_whole(path, data)
        labcache.give_back(path)
    except OSError:
        pass  # a cache that may only be read serves as well
    return data


def libraries(path):
    """The libraries of a program, as {name in the guest: path here}."""
    if read(path)[:4] != b"\x7fELF":
        return {}
    done = subprocess.run(["ldd", path], capture_output=True, text=True, timeout=30,
                          stdin=subprocess.DEVNULL, check=False)
    if "not found" in done.stdout:
        line = [text for text in done.stdout.splitlines() if "not found" in text][0]
        raise LabError(f"{path}: {line.strip()}")
    found = {}
    for line in done.stdout.splitlines():
        match = re.match(r"\s*(?:(\S+) => )?(/\S+) \(0x", line)
        if match and match[1]:
            found[f"{LIBRARY_FOLDER}/{os.path.basename(match[1])}"] = match[2]
        elif match:
            found[match[2].lstrip("/")] = match[2]
    return found


def fetched_libraries(folder, path):
    """The same as libraries() for one of the set's own programs: nothing of this machine counts."""
    roots = [os.path.join(folder, sub) for sub in ("programs", "qemu")]
    places = [os.path.join(root, sub) for root in roots for sub in (LIBRARY_FOLDER, f"usr/{LIBRARY_FOLDER}")]
    loader = os.path.join(folder, "qemu", LIBRARY_FOLDER, "ld-linux-x86-64.so.2")
    done = subprocess.run([loader, "--library-path", ":".join(places), "--list", os.path.realpath(path)],
                          capture_output=True, text=True, timeout=30, stdin=subprocess.DEVNULL, check=False)
    if done.returncode or "not found" in done.stdout:
        lines = [line for line in done.stdout.splitlines() if "not found" in line] or [done.stderr]
        raise LabError(f"{path}: {lines[0].strip()}")
    return {f"{LIBRARY_FOLDER}/{os.path.basename(name)}": where
            for name, where in re.findall(r"^\s*(\S+) => (/\S+) \(0x", done.stdout, re.M)}


def run_archive(archive, init, options, tests, programs, stamp, folder, more_files=(), tree=None):
    """What differs from run to run: the guest's own files, tests and programs. @init is the first program, @tree a folder
    that is laid over the root."""
    wanted = {}
    # Theirs first: where this machine's programs have the same library, it may be a newer one, which serves both.
    for path in programs.values():
        if path.startswith(folder + os.sep):
            wanted.update(fetched_libraries(folder, path))
    guest = os.path.join(LAB, "guest")
    for name in sorted(os.listdir(guest)):
        where = "init" if name == init else f"lab/{name}"
        archive.file(where, read(os.path.join(guest, name)), 0o755)
    for test in tests:
        archive.file(f"lab/tests/{test.name}.sh", read(test.path), 0o755)
    archive.file("lab/list", "".join(f"{test.name} {test.seconds}\n" for test in tests))
    for name, path in programs.items():
        archive.file(f"bin/{name}", read(path), 0o755)
        if not path.startswith(folder + os.sep):
            wanted.update(libraries(path))
    for name, data in more_files:
        archive.file(name, data)
    for pair in options.file:
        source, _, target = pair.partition(":")
        if not target.startswith("/"):
            raise LabError(f"--file wants PATH:/GUESTPATH, not '{pair}'", 64)
        archive.file(target, read(source), stat.S_IMODE(os.stat(source).st_mode) | 0o444)
        wanted.update(libraries(source))
    for path in add_tree(archive, tree) if tree else ():
        if os.access(path, os.X_OK):
            wanted.update(libraries(path))
    for target, source in wanted.items():
        archive.file(target, read(source), 0o755)
    wanted_modules = options.module + [name for test in tests for name in test.modules]
    if wanted_modules:
        modules = modules_in_order(os.path.join(folder, "kernel", "lib", "modules",
                                                stamp["release"]), wanted_modules)
        for name, data in modules:
            archive.file(f"lab/more/{name}.ko", data)
        archive.file("lab/more/order", "".join(name + "\n" for name, _ in modules))
    return archive.whole()


def find_programs(options, tests, scratch, folder):
    programs = {}
    for word in options.bin:
        name, equals, path = word.partition("=")
        if not equals:
            name, path = os.path.basename(word), word
        if not os.path.isfile(path):
            raise LabError(f"--bin {word}: there is no such file", 64)
        programs[name] = path
    needed = {name for test in tests for name in test.needs}
    for name in needed & set(BUILT_PROGRAMS) - set(programs):
        programs[name] = build_program(name, scratch)
    if "ibs_read" in needed and "ibs_read" not in programs:
        programs["ibs_read"] = os.path.join(scratch, "ibs_read")
        labibs.build_reader(programs["ibs_read"])
    # A test whose fetched program isn't there skips itself; the others of the same machine run.
    for name in needed & set(FETCHED_PROGRAMS) - set(programs):
        path = os.path.join(folder, "programs", "usr", "bin", name)
        if os.path.exists(path):
            programs[name] = path
    missing = sorted(needed - set(programs) - set(FETCHED_PROGRAMS))
    if missing:
        raise LabError(f"these tests need --bin for: {', '.join(missing)}", 64)
    return programs


def build_program(name, scratch):
    compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc")
    if not compiler:
        raise LabError(f"these tests need the program {name}: name it with --bin, "
                       "or have a C compiler here", 77)
    path = os.path.join(scratch, name)
    done = subprocess.run([*compiler.split(), "-std=gnu17", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra", "-o", path,
                           os.path.join(LAB, name + ".c"), *BUILT_PROGRAMS[name]],
                          capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    if done.returncode:
        raise LabError(f"{name}.c does not build here: "
                       + (done.stderr.strip().splitlines() or ["?"])[0])
    return path
