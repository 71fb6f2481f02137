# SPDX-License-Identifier: GPL-2.0-or-later
"""The lab's cache: what it downloads, where that lies, how it is unpacked.

Layout (all of it below one folder):
    lock              held shared by running machines, so that no set goes from under them
    fetch.lock        held by a fetch, one at a time
    empty/            what apt is shown in place of this machine's package state
    archives/         packages while a fetch is under way
    current           the name of the set in use, one line
    sets/KEY/         one unpacked set; it appears by a rename, so it is whole
        qemu/         the emulator with every library and firmware file it needs
        kernel/       the guest's kernel package
        headers/      what a module for that kernel is built with; absent when apt has none
        programs/     unmodified programs for tests, with the libraries that qemu/ has not
        stamp.json    the packages with their versions, the kernel's release
        base-*.cpio   the part of the initramfs that never changes
    ibs/KEY/          plugin and module of the lab's IBS, built when first used
    debian/, perf/    what only some tests want, fetched by itself: KEY/ with a stamp.json, and current
Nothing outside of it is written, and no package is installed.
"""
import ctypes
import errno
import fcntl
import hashlib
import json
import os
import pwd
import re
import shutil
import signal
import subprocess
import threading
import time
import urllib.parse

QEMU_PACKAGES = ("qemu-system-x86", "busybox-static")
# The first that the package lists know. Older kernels show one tier only.
KERNEL_PACKAGES = ("linux-image-6.12-amd64", "linux-image-amd64")
KERNEL_AT_LEAST = (6, 12)
# Programs that tests run unmodified: what is fetched with all it depends on, and what by itself,
# since it depends on more than it needs to run.
PROGRAM_PACKAGES = ("redis-tools",)
PROGRAM_PACKAGES_ALONE = ("redis-server",)
STALL_SECONDS = 120
PR_SET_PDEATHSIG = 1


class LabError(Exception):
    """One line for the user; the exit status goes with it."""

    def __init__(self, text, status=1):
        super().__init__(text)
        self.status = status


def say(text):
    print(text, flush=True)


def tie_to_parent():
    """In a child: die with the program that started it, whatever ends that one."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def invoking_user():
    """(uid, gid, home) of the person in front of the screen, also under sudo."""
    if os.geteuid() == 0 and os.environ.get("SUDO_UID", "").isdigit():
        try:
            person = pwd.getpwuid(int(os.environ["SUDO_UID"]))
            return person.pw_uid, person.pw_gid, person.pw_dir
        except KeyError:
            pass
    home = os.environ.get("HOME") or pwd.getpwuid(os.getuid()).pw_dir
    return os.geteuid(), os.getegid(), home


def default_cache():
    named = os.environ.get("PGHOT_LAB_CACHE")
    if named:
        return os.path.abspath(named)
    uid, _, home = invoking_user()
    base = os.environ.get("XDG_CACHE_HOME", "") if uid == os.geteuid() else ""
    if not os.path.isabs(base):
        base = os.path.join(home, ".cache")
    return os.path.join(base, "pghotd", "lab")


def give_back(path):
    """Under sudo, what root made belongs to the person who called sudo."""
    uid, gid, _ = invoking_user()
    if uid == os.geteuid():
        return
    paths = [path]
    for folder, folders, files in os.walk(path):
        paths += [os.path.join(folder, name) for name in folders + files]
    for each in paths:
        try:
            os.chown(each, uid, gid, follow_symlinks=False)
        except OSError:
            pass


def make_folder(path):
    """Like makedirs, and every folder made is the invoking user's."""
    made, step = [], os.path.abspath(path)
    while not os.path.isdir(step):
        made.append(step)
        step = os.path.dirname(step)
    try:
        os.makedirs(path, exist_ok=True)
    except OSError as error:
        raise LabError(f"can't make the folder {path}: {error.strerror}") from error
    uid, gid, _ = invoking_user()
    if uid != os.geteuid():
        for step in made:
            os.chown(step, uid, gid)


class Lock:
    """A lock file of the cache; the kernel lets go of it when the holder dies."""

    def __init__(self, cache, name, exclusive, wait_seconds):
        # A cache that another user filled may be read, and so locked shared.
        flags = os.O_RDWR | os.O_CREAT if exclusive else os.O_RDONLY
        try:
            self.fd = os.open(os.path.join(cache, name), flags | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise LabError(f"can't use the lab's cache {cache}: {error.strerror}") from error
        how = fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH
        end = time.monotonic() + wait_seconds
        told = False
        while True:
            try:
                fcntl.flock(self.fd, how | fcntl.LOCK_NB)
                return
            except OSError as error:
                if error.errno not in (errno.EWOULDBLOCK, errno.EINTR):
                    raise
            if time.monotonic() >= end:
                os.close(self.fd)
                raise LabError(f"the lab's cache {cache} has been in use by another "
                               f"run for {wait_seconds} s; try again later")
            if not told:
                say("waiting for another run to let go of the lab's cache")
                told = True
            time.sleep(0.2)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self.fd)


def current_set(cache):
    """The folder and stamp of the set in use, or None."""
    try:
        with open(os.path.join(cache, "current"), encoding="ascii") as file:
            folder = os.path.join(cache, "sets", os.path.basename(file.read().strip()))
        with open(os.path.join(folder, "stamp.json"), encoding="utf-8") as file:
            stamp = json.load(file)
        for path in (f"kernel/boot/vmlinuz-{stamp['release']}", "qemu/usr/bin/qemu-system-x86_64"):
            os.stat(os.path.join(folder, path))
        return folder, stamp
    except (OSError, ValueError, KeyError):
        return None


# ---- what apt says -------------------------------------------------------------

APT_OPTIONS = ("-o", "APT::Sandbox::User=root", "-o", "Debug::NoLocking=1",
               "-o", "Acquire::Retries=3", "-o", "Acquire::http::Timeout=30",
               "-o", "Acquire::https::Timeout=30", "-o", "Dpkg::Use-Pty=0")


def apt_environment():
    return dict(os.environ, LC_ALL="C", DEBIAN_FRONTEND="noninteractive")


def apt_failure(text):
    """The one line of apt's output that says what is wrong."""
    lines = [line for line in text.splitlines() if line.startswith("E:")]
    line = lines[0] if lines else (text.strip().splitlines() or ["no output"])[-1]
    line = re.sub(r"^(E:|W:)\s*", "", line).strip()
    return re.sub(r"^Failed to fetch \S*/([^/\s]+)\s+", r"\1: ", line)


def apt(arguments):
    try:
        done = subprocess.run(arguments, env=apt_environment(), capture_output=True,
                              text=True, errors="replace", timeout=120,
                              stdin=subprocess.DEVNULL, check=False)
    except FileNotFoundError as error:
        raise LabError(f"the lab needs {arguments[0]}, so a Debian system", 77) from error
    except subprocess.TimeoutExpired as error:
        raise LabError(f"{arguments[0]} did not answer within 120 s") from error
    if done.returncode:
        raise LabError(f"{arguments[0]}: {apt_failure(done.stderr + done.stdout)}"
                       " (if the package lists are old: sudo apt-get update)")
    return done.stdout


def parse_uris(text):
    """(name, version, file, bytes) for each line of apt's --print-uris."""
    found = []
    for line in text.splitlines():
        match = re.match(r"'[^']*' (\S+\.deb) (\d+)", line)
        if match:
            name, version, _ = urllib.parse.unquote(match[1]).rsplit("_", 2)
            found.append((name, version, match[1], int(match[2])))
    return found


def kernel_package():
    for name in KERNEL_PACKAGES:
        try:
            text = apt(["apt-cache", "depends", name])
        except LabError as error:
            if error.status == 77:
                raise
            continue
        for real in re.findall(r"Depends: (linux-image-(\d+)\.(\d+)\S*)", text):
            if (int(real[1]), int(real[2])) >= KERNEL_AT_LEAST:
                return real[0]
    raise LabError("no kernel package of 6.12 or later is known here; with Debian 12 it comes "
                   "from the security suite (then: sudo apt-get update)")


def header_packages(kernel):
    """What builds a module for that kernel package; none when apt doesn't know them."""
    name = kernel.replace("linux-image-", "linux-headers-", 1)
    try:
        text = apt(["apt-cache", "depends", name])
        more = re.findall(r"Depends: (linux-headers-\S+-common|linux-kbuild-\S+)", text)
        return parse_uris(apt(["apt-get", *APT_OPTIONS, "--print-uris",
                               "download", name, *more]))
    except LabError as error:
        if error.status == 77:
            raise
        say(f"no headers for {kernel}, so no machine with IBS: {error}")
        return []


def with_dependencies(cache, names):
    """Packages and all they depend on, as if on a machine that has nothing."""
    # apt leaves out what is installed and what it has downloaded before; here, nothing is.
    empty = os.path.join(cache, "empty")
    make_folder(os.path.join(empty, "archives", "partial"))
    with open(os.path.join(empty, "status"), "w", encoding="ascii"):
        pass
    return parse_uris(apt(["apt-get", *APT_OPTIONS, "-o", f"Dir::State::status={empty}/status",
                           "-o", "Dir::State::extended_states=/dev/null",
                           "-o", f"Dir::Cache::archives={empty}/archives",
                           "-y", "--no-install-recommends", "--print-uris", "install", *names]))


def program_packages(cache, qemu):
    """What the tests' programs need beside the emulator's libraries; none when apt doesn't know them."""
    have = {package[0] for package in qemu}
    try:
        found = with_dependencies(cache, PROGRAM_PACKAGES)
        found += parse_uris(apt(["apt-get", *APT_OPTIONS, "--print-uris", "download", *PROGRAM_PACKAGES_ALONE]))
    except LabError as error:
        if error.status == 77:
            raise
        say(f"no {' and '.join(PROGRAM_PACKAGES_ALONE)}, so the tests with it skip: {error}")
        return []
    return [package for package in found if package[0] not in have]


def wanted_packages(cache):
    """Everything the lab needs, for the four folders of a set."""
    qemu = with_dependencies(cache, QEMU_PACKAGES)
    name = kernel_package()
    kernel = parse_uris(apt(["apt-get", *APT_OPTIONS, "--print-uris", "download", name]))
    if not set(QEMU_PACKAGES) <= {p[0] for p in qemu} or len(kernel) != 1:
        raise LabError("apt names no files for the emulator or the kernel")
    return qemu, kernel, header_packages(name), program_packages(cache, qemu)


# ---- fetch ---------------------------------------------------------------------

def download(cache, packages):
    """Bring the packages into archives/; what is there whole stays."""
    archives = os.path.join(cache, "archives")
    make_folder(os.path.join(archives, "partial"))
    missing = [p for p in packages if not has_file(archives, p)]
    if not missing:
        return
    sizes = {name: size for name, _, _, size in missing}
    command = ["apt-get", *APT_OPTIONS, "-q", "-y", "-o", "APT::Status-Fd=1", "download",
               *(f"{name}={version}" for name, version, _, _ in missing)]
    child = subprocess.Popen(command, cwd=archives, env=apt_environment(), text=True,
                             errors="replace", stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                             preexec_fn=tie_to_parent)
    seen, last, told = [], [time.monotonic()], time.monotonic()
    stop = threading.Event()

    def watch():
        mark = -1
        while not stop.wait(1):
            now = sum_sizes(archives)
            if now != mark:
                mark, last[0] = now, time.monotonic()
            elif time.monotonic() - last[0] > STALL_SECONDS:
                child.kill()
                return

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    count = 0
    try:
        for line in child.stdout:
            line = line.rstrip()
            match = re.match(r"Get:\d+ \S+ \S+ \S+ (\S+) ", line)
            if match:
                count += 1
                told = time.monotonic()
                size = sizes.get(match[1].split(":")[0], 0) / 1e6
                say(f"fetching {count} of {len(missing)}: {match[1]}, {size:.1f} MB")
            elif line.startswith("dlstatus:"):
                if time.monotonic() - told > 5:
                    told = time.monotonic()
                    percent = line.split(":")[2].split(".")[0]
                    say(f"fetching {count} of {len(missing)}: {percent} % of all bytes")
            else:
                seen.append(line)
    finally:
        stop.set()
        if child.poll() is None:
            child.terminate()
        child.wait()
    absent = [p for p in packages if not has_file(archives, p)]
    if child.returncode or absent:
        why = apt_failure("\n".join(seen)) if any(seen) else f"no data for {STALL_SECONDS} s"
        hint = "; the package lists are old: sudo apt-get update" if "404" in why else ""
        raise LabError(f"fetching failed with {len(absent)} of {len(packages)} packages to go: "
                       f"{why}{hint} (run it again to go on from here)")


def has_file(archives, package):
    try:
        return os.stat(os.path.join(archives, package[2])).st_size == package[3]
    except OSError:
        return False


def sum_sizes(folder):
    total = 0
    for where, _, files in os.walk(folder):
        for name in files:
            try:
                total += os.stat(os.path.join(where, name)).st_size
            except OSError:
                pass
    return total


def unpack(archives, packages, target):
    make_folder(target)
    for _, _, file, _ in packages:
        path = os.path.join(archives, file)
        done = subprocess.run(["dpkg-deb", "-x", path, target], capture_output=True,
                              text=True, stdin=subprocess.DEVNULL, check=False)
        if done.returncode:
            os.unlink(path)
            raise LabError(f"can't unpack {file}: {done.stderr.strip().splitlines()[-1]}"
                           " (it was removed; run it again)")


def unpack_headers(archives, packages, target):
    """The headers, without what only other processors need, usable where they lie."""
    if not packages:
        return
    unpack(archives, packages, target)
    sources, common = os.path.join(target, "usr", "src"), ""
    for name in os.listdir(sources):
        folder = os.path.join(sources, name)
        if name.endswith("-common"):
            for other in os.listdir(os.path.join(folder, "arch")):
                if other != "x86":
                    shutil.rmtree(os.path.join(folder, "arch", other))
            common = name
        elif name.startswith("linux-headers-"):
            os.symlink(os.path.join("usr", "src", name), os.path.join(target, "build"))
            if os.path.exists(os.path.join(folder, "vmlinux")):
                os.unlink(os.path.join(folder, "vmlinux"))  # for BTF only
    if not common or not os.path.isdir(os.path.join(target, "build")):
        raise LabError("the kernel's header packages don't hold what they should")
    # the package's own names the place where it would be installed
    write_whole(os.path.join(target, "build", "Makefile"), f"include ../{common}/Makefile\n")


def fetch(cache):
    started = time.monotonic()
    for tool in ("apt-get", "apt-cache", "dpkg-deb"):
        if not shutil.which(tool):
            raise LabError(f"the lab needs {tool}, so a Debian system", 77)
    if os.uname().machine != "x86_64":
        raise LabError(f"the lab's packages are for x86_64, this is {os.uname().machine}", 77)
    make_folder(cache)
    say("asking apt which packages the lab needs")
    with Lock(cache, "fetch.lock", True, 600):
        have = current_set(cache)
        try:
            qemu, kernel, headers, programs = wanted_packages(cache)
        except LabError as error:
            if not have:
                raise
            say(f"the lab's cache stays as it is: {error}")
            return
        packages = qemu + kernel + headers + programs
        names = sorted(f"{name}_{version}" for name, version, _, _ in packages)
        key = hashlib.sha256("\n".join(names).encode()).hexdigest()[:16]
        if have and os.path.basename(have[0]) == key:
            say(f"the lab's cache has everything ({len(packages)} packages): {cache}")
            remove_others(cache, os.path.join(cache, "sets"), (key,))
            return
        archives = os.path.join(cache, "archives")
        left = sum(p[3] for p in packages if not has_file(archives, p)) / 1e6
        say(f"fetching {len(packages)} packages, {left:.0f} MB, into {cache} "
            f"(about {10 + left / 10:.0f} s at 10 MB/s); nothing is installed")
        room = shutil.disk_usage(cache).free / 1e6
        if room < left + 900:
            raise LabError(f"the lab needs {left + 900:.0f} MB of room in {cache}, "
                           f"there are {room:.0f} MB")
        try:
            download(cache, packages)
            say("unpacking")
            new = os.path.join(cache, "sets", key + ".new")
            shutil.rmtree(new, ignore_errors=True)
            unpack(archives, qemu, os.path.join(new, "qemu"))
            unpack(archives, kernel, os.path.join(new, "kernel"))
            unpack_headers(archives, headers, os.path.join(new, "headers"))
            unpack(archives, programs, os.path.join(new, "programs"))
            releases = os.listdir(os.path.join(new, "kernel", "lib", "modules"))
            if len(releases) != 1:
                raise LabError("the kernel package does not hold exactly one kernel")
            stamp = {"packages": names, "release": releases[0]}
            with open(os.path.join(new, "stamp.json"), "w", encoding="utf-8") as file:
                json.dump(stamp, file, indent=1)
                file.write("\n")
                file.flush()
                os.fsync(file.fileno())
            final = os.path.join(cache, "sets", key)
            shutil.rmtree(final, ignore_errors=True)
            os.rename(new, final)
            write_whole(os.path.join(cache, "current"), key + "\n")
            shutil.rmtree(archives, ignore_errors=True)
            remove_others(cache, os.path.join(cache, "sets"), (key,))
        finally:
            give_back(cache)
        say(f"the lab is ready: kernel {releases[0]}, {sum_sizes(cache) / 1e6:.0f} MB on disk, "
            f"{time.monotonic() - started:.0f} s")


# ---- what only some tests want ----------------------------------------------------

def fetch_aside(cache, name, find_packages, prepare):
    """Bring packages into the cache beside the sets, as NAME/KEY/, which appears whole. @prepare(unpacked, new) makes a
    folder of what they hold. When they can't be had, what is there stays in use."""
    make_folder(cache)
    with Lock(cache, "fetch.lock", True, 600):
        base = os.path.join(cache, name)
        try:
            packages = find_packages(cache)
        except LabError as error:
            if not os.path.exists(os.path.join(base, "current")):
                raise
            say(f"{name} stays as it is: {error}")
            return
        names = sorted(f"{package}_{version}" for package, version, _, _ in packages)
        key = hashlib.sha256("\n".join(names).encode()).hexdigest()[:16]
        final = os.path.join(base, key)
        if os.path.exists(os.path.join(final, "stamp.json")):
            write_whole(os.path.join(base, "current"), key + "\n")
            say(f"the lab's cache has {name}: {final}")
            return
        say(f"fetching {len(packages)} packages, {sum(each[3] for each in packages) / 1e6:.0f} MB; nothing is installed")
        new, unpacked = final + ".new", final + ".unpacked"
        archives = os.path.join(cache, "archives")
        make_folder(base)
        try:
            for folder in (new, unpacked):
                shutil.rmtree(folder, ignore_errors=True)
            download(cache, packages)
            unpack(archives, packages, unpacked)
            os.makedirs(new)
            prepare(unpacked, new)
            with open(os.path.join(new, "stamp.json"), "w", encoding="utf-8") as file:
                json.dump({"packages": names}, file, indent=1)
            os.rename(new, final)
            write_whole(os.path.join(base, "current"), key + "\n")
            for _, _, file, _ in packages:
                os.unlink(os.path.join(archives, file))
            for folder in (os.path.join(archives, "partial"), archives):
                if not os.listdir(folder):
                    os.rmdir(folder)
            remove_others(cache, base, (key, "current"))
        finally:
            for folder in (new, unpacked):
                shutil.rmtree(folder, ignore_errors=True)
            give_back(cache)
        say(f"{name} is in {final}, {sum_sizes(final) / 1e6:.0f} MB")


def find_aside(cache, name):
    """The folder that fetch_aside() made and the names of its packages; OSError or ValueError when there is none."""
    with open(os.path.join(cache, name, "current"), encoding="ascii") as file:
        folder = os.path.join(cache, name, os.path.basename(file.read().strip()))
    with open(os.path.join(folder, "stamp.json"), encoding="utf-8") as file:
        return folder, json.load(file)["packages"]


def remove_others(cache, base, kept):
    """Unless a machine is running, which may use one; then the next fetch does it."""
    try:
        with Lock(cache, "lock", True, 0):
            for name in os.listdir(base):
                if name not in kept:
                    shutil.rmtree(os.path.join(base, name), ignore_errors=True)
    except LabError:
        pass


def write_whole(path, data):
    """The file has its old content or all of the new."""
    new = f"{path}.{os.getpid()}.new"
    with open(new, "wb") as file:
        file.write(data.encode() if isinstance(data, str) else data)
        file.flush()
        os.fsync(file.fileno())
    os.rename(new, path)
