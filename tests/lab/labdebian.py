# SPDX-License-Identifier: GPL-2.0-or-later
"""A machine of the lab with what an administrator has: Debian with systemd, dbus and the journal, pghotd installed.

Its root file system is packages of the distribution, unpacked and laid out as an installation has them. Their
maintainer scripts don't run; what those would make and this machine needs is made here, and the users by
systemd-sysusers when it boots.
"""
import os
import shutil

import labcache
import labimage
from labcache import LabError

PACKAGES = ("base-files", "base-passwd", "coreutils", "dash", "dbus", "findutils", "grep", "mawk", "sed", "systemd",
            "usr-is-merged", "util-linux")
# Essential, and large; nothing that runs here is written in it.
LEFT_OUT = ("debconf", "perl-base")
# For people who read, in many languages.
NOT_NEEDED = ("usr/share/doc", "usr/share/info", "usr/share/locale", "usr/share/man", "usr/share/zsh", "usr/share/lintian")
MERGED = ("bin", "sbin", "lib", "lib64")
# Nobody logs in, there is no network, and nothing here lasts long enough to be cleaned up.
MASKED = ("dev-mqueue.mount", "getty.target", "kmod-static-nodes.service", "ldconfig.service",
          "proc-sys-fs-binfmt_misc.automount", "sys-fs-fuse-connections.mount", "sys-kernel-config.mount",
          "systemd-ask-password-console.path", "systemd-ask-password-wall.path", "systemd-binfmt.service",
          "systemd-firstboot.service", "systemd-initctl.socket", "systemd-logind.service", "systemd-modules-load.service",
          "systemd-pcrphase-sysinit.service", "systemd-pcrphase.service", "systemd-random-seed.service",
          "systemd-repart.service", "systemd-update-utmp-runlevel.service", "systemd-update-utmp.service",
          "timers.target")
FILES = {
    "etc/hostname": "lab\n",
    "etc/hosts": "127.0.0.1 localhost lab\n",
    "etc/machine-id": "9f8e3c0d5a6b4b1fae27c1d2b3a49586\n",
    "etc/nsswitch.conf": "passwd: files\ngroup: files\n",
    # What is enough on hardware is not where all takes twenty times as long and the host has other work.
    "etc/systemd/system/pghotd.service.d/slow.conf":
        "[Service]\nTimeoutStartSec=300\nTimeoutStopSec=90\nWatchdogSec=300\n",
    "etc/systemd/system/lab.target":
        "[Unit]\nRequires=multi-user.target\nAfter=multi-user.target\nAllowIsolate=yes\n",
    "etc/systemd/system/lab.service":
        "[Unit]\nAfter=multi-user.target\n[Service]\nExecStart=/lab/debian-run\nStandardOutput=journal+console\n"
        "StandardError=journal+console\n",
}
LINKS = {
    "etc/systemd/system/default.target": "lab.target",
    "etc/systemd/system/lab.target.wants/lab.service": "../lab.service",
    "etc/systemd/system-generators/systemd-getty-generator": "/dev/null",
    "lab/bin/usleep": "busybox",
    "usr/bin/awk": "mawk",
    "var/run": "/run",
}
FOLDERS = ("dev", "out", "proc", "root", "run", "sys", "tmp", "var/lib", "var/log")
USER = ("user:x:1000:1000:user:/tmp:/bin/sh\n", "user:x:1000:\n")


def packages(cache):
    found = [package for package in labcache.with_dependencies(cache, PACKAGES) if package[0] not in LEFT_OUT]
    if not set(PACKAGES) <= {package[0] for package in found}:
        raise LabError("apt names no files for a Debian root file system")
    return found


def take_root(unpacked, new):
    for name in NOT_NEEDED:
        shutil.rmtree(os.path.join(unpacked, name), ignore_errors=True)
    os.rename(unpacked, os.path.join(new, "root"))


def fetch(cache):
    labcache.fetch_aside(cache, "debian", packages, take_root)


def find_root(cache):
    try:
        return os.path.join(labcache.find_aside(cache, "debian")[0], "root")
    except (OSError, ValueError, KeyError) as error:
        raise LabError("the Debian root file system is not in the lab's cache: run tests/lab/lab fetch --debian",
                       77) from error


def place(name):
    """Where a path of a package is on a system whose /bin is /usr/bin."""
    return "usr/" + name if name.split("/", 1)[0] in MERGED else name


def base_archive(cache, folder, stamp):
    """The root file system, and what the lab needs in it."""
    root = find_root(cache)
    archive = labimage.Archive(place)
    for name in MERGED:
        archive.link(name, "usr/" + name, placed=True)
    for name in FOLDERS:
        archive.folder(name)
    labimage.add_tree(archive, root)
    for name, line in zip(("passwd", "group"), USER):
        text = labimage.read(os.path.join(root, "usr/share/base-passwd", name + ".master")).decode()
        archive.file("etc/" + name, text + line)
    for name, text in FILES.items():
        archive.file(name, text)
    for name, target in LINKS.items():
        archive.link(name, target)
    for name in MASKED:
        archive.link("etc/systemd/system/" + name, "/dev/null")
    archive.node("dev/console", 5, 1)
    labimage.add_own(archive, folder, stamp, "lab/bin/busybox")
    return archive.whole()
