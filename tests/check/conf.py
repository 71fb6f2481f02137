#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The default configuration and the option table say the same. conf.py PGHOTD [SHIPPED-FILE]"""
import os
import re
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
import cases  # noqa: E402

sys.path.insert(0, os.path.join(cases.ROOT, "man"))
import options  # noqa: E402

BAD_CONFIG = 78
SETTING = re.compile(r"^#(\s*(?:[a-z0-9_]+ = (?:\{|.*;)|\};))$", re.M)


class Daemon:
    def __init__(self, program, folder):
        self.program, self.file = program, os.path.join(folder, "pghotd.conf")

    def run(self, *words):
        return subprocess.run([self.program, *words], capture_output=True, text=True, timeout=30,
                              stdin=subprocess.DEVNULL, check=False)

    def check_config(self, text, status, *says):
        """Faults, if the daemon does not end with that status and those words."""
        with open(self.file, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(self.file, 0o644)
        done = self.run("--check-config", "-c", self.file)
        faults = [] if done.returncode == status else [f"status {done.returncode}, not {status}"]
        faults += [f"does not say '{word}'" for word in says if word not in done.stderr]
        if status and done.stderr.count("\n") != 1:
            faults.append("says more or less than one line on stderr")
        return faults + [line for line in done.stderr.splitlines()[:3] if faults]


def values_of(text):
    """{dotted key: value as written} of an uncommented default configuration."""
    found, group = {}, ""
    for line in text.splitlines():
        setting = re.match(r"\s*([a-z0-9_]+) = (.*?);?$", line)
        if re.match(r"\s*\};", line):
            group = ""
        elif setting and setting[2] == "{":
            group = setting[1] + "."
        elif setting:
            found[group + setting[1]] = setting[2]
    return found


def written(row):
    if row["type"] in ("ENUM", "TEXT"):
        return f'"{row["default"]}"'
    if row["type"] == "LIST":
        return f'( "{row["default"]}" )' if row["default"] else "( )"
    if row["type"] == "RULES":
        return "( )"
    return row["default"]


def main():
    checks = cases.Cases("conf")
    table = options.read(os.path.join(cases.ROOT, "include", "options.def"))
    real = [row for row in table if row["type"] != "ALIAS"]
    with tempfile.TemporaryDirectory() as folder:
        daemon = Daemon(sys.argv[1], folder)
        done = daemon.run("--print-defaults")
        default = done.stdout
        checks.check("--print-defaults ends with 0", [] if done.returncode == 0 and default else [done.stderr])
        if len(sys.argv) > 2:
            with open(sys.argv[2], encoding="utf-8") as file:
                checks.check("the shipped file is what the table makes",
                             [] if file.read() == default else [f"{sys.argv[2]} differs from pghotd --print-defaults"])
        checks.check("the defaults are narrow", [line for line in default.splitlines() if len(line) > 110])
        plain = SETTING.sub(r"\1", default)
        values, keys = values_of(plain), {row["key"]: written(row) for row in real}
        checks.check("every option is shown with its default", [f"{key}: {values.get(key)}, not {value}"
                     for key, value in keys.items() if values.get(key) != value])
        checks.check("nothing else is shown", sorted(set(values) - set(keys)))
        checks.check("the shipped file is accepted", daemon.check_config(default, 0))
        checks.check("it is accepted with every comment taken off", daemon.check_config(plain, 0))
        checks.check("an empty file is accepted", daemon.check_config("", 0))
        for row in real:
            if row["type"] not in ("INT", "FLOAT"):
                continue
            group, _, name = row["key"].rpartition(".")
            beyond = str(int(row["max"]) + 1)
            text = f"\n{name} = {beyond};\n"
            if group:
                text = f"{group} = {{{text}}};\n"
            checks.check(f"{row['key']} = {beyond} is refused with its line",
                         daemon.check_config(text, BAD_CONFIG, row["key"], daemon.file + ":2:"))
        for row in table:
            if row["type"] == "ALIAS" and row["target"] != "sources":
                value = next(option["default"] for option in real if option["key"] == row["target"])
                checks.check(f"the kernel's name {row['key']} is understood",
                             daemon.check_config(f"{row['key']} = {value};\n", 0))
        checks.check("a typing error is met with the nearest key",
                     daemon.check_config('promote = { rate_mib_per_second = 1; };\n', BAD_CONFIG, "rate_mib_per_sec"))
        checks.check("a value that libconfig would bend is refused",
                     daemon.check_config("memory_max_mib = 5000000000;\n", BAD_CONFIG, "5000000000"))
        checks.check("a broken file is refused with its line",
                     daemon.check_config("mode = ;\n", BAD_CONFIG, daemon.file + ":1:"))
        os.chmod(daemon.file, 0o666)
        done = daemon.run("--check-config", "-c", daemon.file)
        checks.check("a file that others may write is refused", [] if done.returncode == BAD_CONFIG else [done.stderr])
    checks.end()


main()
