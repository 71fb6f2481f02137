#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Types at a shell and presses Tab: completion.py bash|zsh FILE PROGRAM. 77 where there is no such shell."""
import os
import pty
import re
import select
import shlex
import shutil
import subprocess
import sys
import time

SECONDS = 60    # for what takes a moment
SETTLE = 0.3    # that nothing more comes, before Tab: a shell asks for the terminal's attention first

# What is typed, and what the line is after Tab.
CASES = {
    "pghotctl": (
        ("pghotctl sta", "pghotctl status "),
        ("pghotctl mode obs", "pghotctl mode observe "),
        ("pghotctl tune promote.ra", "pghotctl tune promote.rate_mib_per_sec="),
        ("pghotctl tune mode=ob", "pghotctl tune mode=observe "),
        ("pghotctl tune kinds.shared=t", "pghotctl tune kinds.shared=true "),
        ("pghotctl pause --fo", "pghotctl pause --for "),
        ("pghotctl heat --sv", "pghotctl heat --svg "),
        ("pghotctl --js", "pghotctl --json "),
        ("pghotctl top --by cg", "pghotctl top --by cgroup "),
    ),
    "pghotd": (
        ("pghotd --fore", "pghotd --foreground "),
        ("pghotd --mode obs", "pghotd --mode observe "),
        ("pghotd --mode=obs", "pghotd --mode=observe "),
        ("pghotd --simulate x --policy reg", "pghotd --simulate x --policy region "),
        ("pghotd --check-config --set promote.ra", "pghotd --check-config --set promote.rate_mib_per_sec="),
        ("pghotd --set kinds.shared=t", "pghotd --set kinds.shared=true "),
        ("pghotd --set=mode=ob", "pghotd --set=mode=observe "),
    ),
}
SETUP = {
    "bash": ["bash", "--norc", "--noprofile", "-i"],
    "zsh": ["zsh", "-f", "-i"],
}
ENVIRONMENT = {"TERM": "dumb", "LC_ALL": "C", "HOME": "/nonexistent", "HISTFILE": "/dev/null", "INPUTRC": "/dev/null",
               "PATH": os.environ["PATH"]}
LOAD = {
    "bash": "PS1='ready> '; bind 'set bell-style none'; bind 'set enable-bracketed-paste off'; source {file}",
    "zsh": "PS1='ready> '; unsetopt zle_bracketed_paste promptsp beep; autoload -U compinit; compinit -D -u; source {file}; "
           "compdef _{program} {program}",
}


class Shell:
    def __init__(self, name, file, program):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            # Nothing of the caller's: no settings, no hooks, and lines that are not broken.
            os.execve(shutil.which(name), SETUP[name], {**ENVIRONMENT, "COLUMNS": "200"})
        self.bytes, self.text = b"", ""
        self.settle()
        # What is typed is echoed, too, but not as one word.
        self.type(LOAD[name].format(file=shlex.quote(file), program=program) + "; echo load''ed\r")
        self.wait(lambda text: "loaded" in text and "ready> " in text.partition("loaded")[2])

    def read(self, seconds):
        if not select.select([self.fd], [], [], seconds)[0]:
            return False
        self.bytes += os.read(self.fd, 65536)
        # What only moves the cursor or rings is no text. It need not come in one piece.
        self.text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]|\x07|\r(?!\n)", "", self.bytes.decode(errors="replace"))
        return True

    def settle(self):
        while self.read(SETTLE):
            pass

    def wait(self, ready):
        end = time.monotonic() + SECONDS
        while not ready(self.text) and time.monotonic() < end:
            self.read(0.1)
        return ready(self.text)

    def type(self, keys):
        os.write(self.fd, keys.encode())

    def complete(self, typed, expected):
        """The line after Tab; it is cleared again."""
        self.settle()
        self.bytes, self.text = b"", ""
        self.type(typed)
        self.wait(lambda text: typed in text)
        self.type("\t")
        self.wait(lambda text: expected in text.replace("\r\n", ""))
        line = self.text
        self.type("\x15\r")    # kill the line
        self.wait(lambda text: "ready> " in text[len(line):])
        return line

    def end(self):
        os.close(self.fd)
        os.waitpid(self.pid, 0)


def words_of_bash(file, *words):
    """What bash would offer for the last of the words, without a terminal."""
    script = f'source {shlex.quote(file)}; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _{words[0]}; printf "%s\\n" "${{COMPREPLY[@]}}"'
    done = subprocess.run(["bash", "--norc", "-c", script, "bash", *words], capture_output=True, text=True, timeout=60,
                          check=True, env=ENVIRONMENT)
    return done.stdout.split()


def everything(file, program):
    """Each verb and option of the help is offered, and no option where it doesn't belong."""
    told = subprocess.run([program, "--help"], capture_output=True, text=True, timeout=60, check=True).stdout
    verbs = set(re.findall(r"^  ([a-z]+) ", told, re.M))
    flags = set(re.findall(r"^ +(?:-\w, )?(--[a-z][a-z-]*)", told, re.M))
    faults = []
    if os.path.basename(program) == "pghotd":
        if set(words_of_bash(file, "pghotd", "")) != flags:
            faults.append(f"options: {sorted(flags ^ set(words_of_bash(file, 'pghotd', '')))}")
        if "observe" in words_of_bash(file, "pghotd", "--config", "o"):
            faults.append("another option's values are offered")
        return faults
    if set(words_of_bash(file, "pghotctl", "")) != verbs:
        faults.append(f"verbs: {sorted(verbs ^ set(words_of_bash(file, 'pghotctl', '')))}")
    if set(words_of_bash(file, "pghotctl", "--")) != flags:
        faults.append(f"options: {sorted(flags ^ set(words_of_bash(file, 'pghotctl', '--')))}")
    if "--svg" in words_of_bash(file, "pghotctl", "status", "--"):
        faults.append("status is offered --svg")
    if "mode" not in words_of_bash(file, "pghotctl", "--socket", "/x", "m"):
        faults.append("the value of an option is taken for the verb")
    return faults


def main():
    name, file, program = sys.argv[1:]
    if not shutil.which(name):
        print(f"skip completion: {name} ({name} is not installed)\n0 passed, 0 failed, 1 skipped")
        sys.exit(77)
    passed = failed = 0
    results = []
    shell = Shell(name, file, os.path.basename(program))
    for typed, expected in CASES[os.path.basename(program)]:
        line = shell.complete(typed, expected)
        results.append((f"{typed!r}", [] if expected in line.replace("\r\n", "") else [f"is {line!r}"]))
    shell.end()
    if name == "bash":
        results.append(("everything of the help", everything(file, program)))
    for case, faults in results:
        passed += not faults
        failed += bool(faults)
        print(f"{'not ok' if faults else 'ok'} completion {name}: {case}")
        for fault in faults:
            print(f"  {fault}")
    print(f"{passed} passed, {failed} failed, 0 skipped")
    sys.exit(1 if failed else 0)


main()
