#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The container's files agree with the rest: container.py PGHOTD"""
import json
import os
import re
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
import cases  # noqa: E402

sys.path.insert(0, os.path.join(cases.ROOT, "packaging", "container"))
import gen_seccomp  # noqa: E402

FOLDER = "packaging/container"
NEVER = {"mount", "umount2", "ptrace", "bpf", "init_module", "finit_module", "delete_module", "kexec_load", "kexec_file_load", "reboot",
         "swapon", "swapoff", "setns", "unshare", "chroot", "pivot_root", "add_key", "keyctl", "request_key", "open_by_handle_at",
         "userfaultfd", "process_vm_writev"}
NEEDED = {"perf_event_open", "move_pages", "mbind", "get_mempolicy", "process_madvise", "mlockall", "execve", "clone3", "rseq"}


def of_seccomp(checks):
    text = cases.read(f"{FOLDER}/pghotd-seccomp.json")
    profile = json.loads(text)
    names = profile["syscalls"][0]["names"]
    checks.check("seccomp: what is not listed is refused", [] if profile["defaultAction"] == "SCMP_ACT_ERRNO" and
                 len(profile["syscalls"]) == 1 and profile["syscalls"][0]["action"] == "SCMP_ACT_ALLOW" else ["it is not"])
    checks.check("seccomp: nothing that pghotd never does", [f"{name} is allowed" for name in sorted(NEVER & set(names))])
    checks.check("seccomp: what pghotd does", [f"{name} is missing" for name in sorted(NEEDED - set(names))])
    checks.check("seccomp: sorted, each once", [] if names == sorted(set(names)) else ["not so"])
    try:
        version = subprocess.run(["systemd-analyze", "--version"], capture_output=True, text=True, timeout=60, check=True).stdout
    except OSError:
        version = ""
    if not version.startswith("systemd 252"):
        checks.skip("seccomp: it is the unit's filter", "the groups of system calls are those of systemd 252")
        return
    made = json.dumps(gen_seccomp.profile(cases.read("systemd/pghotd.service.in")), indent=2) + "\n"
    checks.check("seccomp: it is the unit's filter", [] if made == text else [
        f"{FOLDER}/gen_seccomp.py systemd/pghotd.service.in > {FOLDER}/pghotd-seccomp.json"])


def of_image(checks):
    image = cases.read(f"{FOLDER}/Containerfile")
    stages = re.split(r"^FROM ", image, flags=re.M)
    installed = set(re.findall(r"[a-z][a-z0-9.+-]+", stages[1].split("COPY")[0]))
    control = cases.read("packaging/debian/control")
    wanted = re.search(r"^Build-Depends: (.*?)^\S", control, re.M | re.S)[1]
    missing = []
    for row in wanted.split(","):
        name = row.split()[0].split(":")[0]
        if "<!nocheck>" not in row and not name.startswith(("debhelper-compat", "dh-sequence")) and name not in installed:
            missing.append(f"{name} is not installed")
    checks.check("image: what the package needs to build", missing)
    group = re.search(r"groupadd --system --gid (\d+) pghot", image)
    checks.check("image: the group's number is the exporter's", [] if group and re.search(
        rf"^ +runAsGroup: {group[1]}$", cases.read(f"{FOLDER}/daemonset.yaml"), re.M) else ["it is not"])


def of_cluster(checks, program):
    text = cases.read(f"{FOLDER}/daemonset.yaml")
    faults = []
    for capability in re.findall(r"^ +- ([A-Z]+(?:_[A-Z]+)*)$", text, re.M):
        if capability != "ALL" and not re.search(rf"^ +# {capability}: ", text, re.M):
            faults.append(f"{capability} isn't explained")
    checks.check("cluster: each capability is explained", faults)
    checks.check("cluster: the profile is the one that is to be copied", [] if "profiles/pghotd.json" in text and
                 "localhostProfile: profiles/pghotd.json" in text and "pghotd-seccomp.json" in text else ["it is not"])
    conf = re.search(r"^  pghotd\.conf: \|\n((?:    .*\n)+)", text, re.M)
    with tempfile.NamedTemporaryFile("w", suffix=".conf") as file:
        file.write(re.sub(r"^ {4}", "", conf[1], flags=re.M))
        file.flush()
        done = subprocess.run([program, "-c", file.name, "--check-config"], capture_output=True, text=True, timeout=60, check=False)
    checks.check("cluster: its configuration is accepted", [] if done.returncode == 0 else [done.stderr])
    try:
        import yaml
    except ImportError:
        checks.skip("cluster: it is YAML", "Python has no yaml (package python3-yaml)")
        return
    documents = list(yaml.safe_load_all(text))
    pod = documents[-1]["spec"]["template"]["spec"]
    checks.check("cluster: it is YAML", [] if [document["kind"] for document in documents] == ["Namespace", "ConfigMap", "DaemonSet"]
                 else ["not these kinds"])
    checks.check("cluster: the host's pids, and no privileged container", [] if pod["hostPID"] is True and all(
        not container["securityContext"]["allowPrivilegeEscalation"] and "privileged" not in container["securityContext"] and
        container["securityContext"]["capabilities"]["drop"] == ["ALL"] for container in pod["containers"]) else ["not so"])


def main():
    checks = cases.Cases("container")
    of_seccomp(checks)
    of_image(checks)
    of_cluster(checks, sys.argv[1])
    checks.end()


main()
