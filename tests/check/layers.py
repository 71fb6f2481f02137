#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Who may include whom.

    program   pghotd and pghotctl: what src/meson.build names in executable()
    simulator         sim_*: drives the data plane on a model of a machine
    data | control    side by side, neither knows the other
    facts
    base

The lists of the layers are those in src/meson.build. A file includes its own layer and lower ones; within the data
plane, where the samples flow in one direction, only what DATA says: leaf types and the stage directly downstream. A file
named STAGE_MORE is a part of that stage. Some interfaces are for a few files only (RULES).
"""
import os
import re
import shutil
import sys
import tempfile

sys.dont_write_bytecode = True
import cases  # noqa: E402

BELOW = {
    "base": {"base"},
    "facts": {"base", "facts"},
    "data": {"base", "facts", "data"},
    "control": {"base", "facts", "control"},
    "simulator": {"base", "facts", "data", "simulator"},
    "program": {"base", "facts", "data", "control", "simulator", "program"},
}
# Headers without a source of their own name.
HEADER_ONLY = {"build_config": "base", "cleanup": "base", "hash": "base", "sample": "facts", "options_undef": "facts", "options_rest": "facts",
               "options": "facts", "verbs": "base", "messages": "base", "buffers": "facts", "ibs": "data", "record": "data", "evidence": "data"}

# stage: what else of the data plane it may include.
DATA = {
    "accesses": set(),
    "source": {"decode", "ibs", "perf_ring"},
    "perf_ring": set(),
    "decode": {"ibs"},
    "ibs": {"decode"},
    "reader": {"source", "perf_ring", "decode", "ibs", "sample_queue", "hotness"},
    "sample_queue": set(),
    "collector": {"sample_queue", "holdout", "hotness", "owners", "record"},
    "holdout": {"accesses", "hotness"},
    "hotness": {"evidence", "hotmap", "regions", "owners", "record", "retire", "slotset", "tablearena", "tablemem"},
    "hotmap": {"hotness", "owners", "record", "regions", "retire", "tablemem"},
    "regions": {"evidence", "hotness", "owners", "record", "retire", "tablemem"},
    "janitor": {"hotness", "owners"},
    "owners": {"retire"},
    "retire": set(),
    "evidence": set(),
    "slotset": {"tablemem"},
    "tablemem": set(),
    "tablearena": {"tablemem"},
    "record": set(),
    "plan": {"record", "hotness"},
    "policy": {"evidence", "hotness", "plan", "record"},
    "decider": {"evidence", "hotness", "policy", "slotset", "tablemem"},
    "manage": {"owners"},
    "fair": {"evidence", "hotness", "owners"},
    "guard": {"owners"},
    "migrator": {"accesses", "decider", "evidence", "fair", "guard", "holdout", "hotness", "manage", "mover", "owners", "plan", "policy", "record", "victims"},
    "mover": {"plan"},
    "room": {"accesses", "decider", "fair", "guard", "holdout", "hotness", "manage", "mover", "owners", "victims"},
    "victims": {"decider", "evidence", "fair", "holdout", "hotness", "manage", "mover", "owners"},
}
# Includes that break the table on purpose.
EXCEPTIONS = {("report", "hotness")}    # for struct hotness_usage

# (what is looked for in the code without comments, who may have it, what to do instead)
RULES = (
    (r"#\s*include\s*<linux/perf_event\.h>", r"source_\w+|perf_ring|decode|privops\w*|reader", "perf stays behind the sources"),
    (r"#\s*include\s*<libconfig\.h>", r"config|sim_scenario", "config.h has the values"),
    (r"#\s*include\s*<urcu[\w/-]*\.h>", r"rcu", "rcu.h wraps it"),
    (r"\b(?:move_pages|numa_move_pages|migrate_pages|numa_migrate_pages)\s*\(|\b(?:SYS|__NR)_(?:move|migrate)_pages\b",
     r"mover_pages", "moving is the mover's"),
    (r"\b(?:open|openat|fopen|opendir|access|stat|lstat|readlink)\s*\([^;]*?\"/(?:sys|proc)/", r"fsroot",
     "fsroot.h reads /sys and /proc, so that a test can stand in for them"),
    # A wait with a deadline in the kernel's time, as worker_join()'s, is for the kernel's clock.
    (r"\bclock_gettime\s*\(", r"clock|worker", "clock.h can be a test's clock"),
    (r"#\s*include\s*\"[^\"]*\.c\"", r"$^", "a source is compiled, not included"),
)


def strip_comments(text):
    return re.sub(r'("(?:\\.|[^"\\\n])*")|//[^\n]*|/\*.*?\*/', lambda m: m[1] or "\n" * m[0].count("\n"), text,
                  flags=re.S)


class Tree:
    def __init__(self, root):
        self.files, self.layer = {}, dict(HEADER_ONLY)
        for folder in ("include", "src"):
            for name in sorted(os.listdir(os.path.join(root, folder))):
                if name.endswith((".c", ".h", ".def")):
                    self.files[os.path.join(folder, name)] = strip_comments(cases.read(os.path.join(folder, name), root))
        build = cases.read("src/meson.build", root)
        for layer in ("base", "facts", "data", "control", "simulator"):
            found = re.search(rf"^{layer} = \[(.*?)\]", build, re.M | re.S)
            for module in re.findall(r"'(\w+)'", found[1] if found else ""):
                self.layer[module] = layer
        for call in re.findall(r"\bexecutable\((.*?)\)", build, re.S):
            for module in re.findall(r"'(\w+)\.c'", call):
                self.layer[module] = "program"

    def layer_of(self, module):
        """Of the module, or of the one that it is a part of."""
        while module not in self.layer and "_" in module:
            module = module.rpartition("_")[0]
        return self.layer.get(module)

    @staticmethod
    def stage_of(module):
        while module not in DATA and "_" in module:
            module = module.rpartition("_")[0]
        return module if module in DATA else None

    def includes(self):
        """(path, line, including module, included module)"""
        for path, text in self.files.items():
            module = os.path.basename(path).split(".")[0]
            for number, line in enumerate(text.split("\n"), 1):
                found = re.match(r'\s*#\s*include\s*"([^"]+)"', line)
                if found:
                    yield path, number, module, os.path.basename(found[1]).split(".")[0]

    def placed(self):
        return [f"{path}: in no layer; list it in src/meson.build, or here if it is a header only" for path in self.files
                if self.layer_of(os.path.basename(path).split(".")[0]) is None]

    def layering(self):
        faults = []
        for path, number, module, other in self.includes():
            mine, its = self.layer_of(module), self.layer_of(other)
            if mine is None or module == other or (module, other) in EXCEPTIONS:
                continue
            where = f"{path}:{number}"
            if its is None:
                faults.append(f"{where}: {other} is in no layer")
            elif its not in BELOW[mine]:
                faults.append(f"{where}: {module} ({mine}) may not include {other} ({its})")
            elif mine == its == "data":
                stage, target = self.stage_of(module), self.stage_of(other)
                if stage is None or target is None:
                    faults.append(f"{where}: {module if stage is None else other} is no stage that this table knows")
                elif target != stage and target not in DATA[stage]:
                    faults.append(f"{where}: {module} may not include {other}: not downstream of it")
        return faults

    def cycles(self):
        graph = {}
        for path, _, module, other in self.includes():
            if path.endswith(".h") and module != other:
                graph.setdefault(module, set()).add(other)
        faults, done = [], set()

        def walk(module, way):
            if module in way:
                faults.append(" includes ".join(way[way.index(module):] + [module]))
            elif module not in done:
                for other in sorted(graph.get(module, ())):
                    walk(other, way + [module])
                done.add(module)
        for module in sorted(graph):
            walk(module, [])
        return faults

    def rule(self, pattern, allowed, instead):
        faults = []
        for path, text in self.files.items():
            if re.fullmatch(allowed, os.path.basename(path).split(".")[0]):
                continue
            if '"' not in pattern:
                text = re.sub(r'"(?:\\.|[^"\\\n])*"', '""', text)    # words in messages are not code
            for found in re.finditer(pattern, text, re.S):
                number = text.count("\n", 0, found.start()) + 1
                faults.append(f"{path}:{number}: {found[0].split(chr(10))[0].strip()}: {instead}")
        return faults

    def faults(self):
        every = self.placed() + self.layering() + self.cycles()
        for rule in RULES:
            every += self.rule(*rule)
        return every


# A tree that is right, and what makes it wrong: (file, text, what must be found).
GOOD = {
    "src/meson.build": "base = ['clock', 'rcu']\nfacts = ['stats', 'config']\ndata = ['reader', 'decode', 'mover', 'migrator']\n"
                       "control = ['bus', 'report']\nexecutable('pghotd', 'daemon.c', 'pghotd.c')\n",
    "include/clock.h": "", "include/rcu.h": "#include <urcu.h>\n", "include/stats.h": '#include "stats.def"\n',
    "include/stats.def": "", "include/reader.h": "", "include/decode.h": "#include <linux/perf_event.h>\n",
    "include/mover.h": "", "include/migrator.h": '#include "mover.h"\n', "include/bus.h": '#include "clock.h"\n',
    "include/daemon.h": '#include "bus.h"\n#include "reader.h"\n', "include/report.h": "",
    "src/reader.c": '#include "decode.h"\n#include "reader.h"\n#include "stats.h"\n/* #include "bus.h" */\n',
    "src/mover_pages.c": "void f(void) { numa_move_pages(0); }\n", "src/daemon.c": '#include "daemon.h"\n',
}
BAD = (
    ("src/clock.c", '#include "stats.h"\n', "clock (base) may not include stats (facts)"),
    ("src/stats.c", '#include "reader.h"\n', "stats (facts) may not include reader (data)"),
    ("src/reader.c", '#include "bus.h"\n', "reader (data) may not include bus (control)"),
    ("src/bus.c", '#include "reader.h"\n', "bus (control) may not include reader (data)"),
    ("src/report.c", '#include "daemon.h"\n', "report (control) may not include daemon (program)"),
    ("src/decode.c", '#include "reader.h"\n', "decode may not include reader: not downstream"),
    ("src/mover_pages.c", '#include "migrator.h"\n', "mover_pages may not include migrator: not downstream"),
    ("src/stranger.c", "int i;\n", "in no layer"),
    ("include/mover.h", '#include "migrator.h"\n', "migrator includes mover includes migrator"),
    ("src/bus.c", "#include <linux/perf_event.h>\n", "perf stays"),
    ("src/stats.c", "# include <libconfig.h>\n", "config.h has"),
    ("src/reader.c", "#include <urcu/list.h>\n", "rcu.h wraps"),
    ("src/migrator.c", "void f(void)\n{\n\tsyscall(SYS_move_pages);\n}\n", "moving is"),
    ("src/stats.c", 'int f(void) { return open("/proc/stat", 0); }\n', "fsroot.h reads"),
    ("src/stats.c", "int f(void) { return clock_gettime(0, 0); }\n", "clock.h can"),
    ("src/stats.c", '#include "clock.c"\n', "compiled"),
)


def sample(changed):
    root = tempfile.mkdtemp()
    try:
        for path, text in {**GOOD, **changed}.items():
            os.makedirs(os.path.dirname(os.path.join(root, path)), exist_ok=True)
            with open(os.path.join(root, path), "w", encoding="utf-8") as file:
                file.write(text)
        return Tree(root).faults()
    finally:
        shutil.rmtree(root)


def main():
    checks = cases.Cases("layers")
    checks.check("self-test: a good tree", sample({}))
    for path, text, what in BAD:
        found = sample({path: text})
        checks.check(f"self-test: {what}", [] if any(what in fault for fault in found) else [f"not found; but: {found}"])
    tree = Tree(cases.ROOT)
    checks.check("every file is in a layer", tree.placed())
    checks.check("includes follow the layers", tree.layering())
    checks.check("no header includes itself", tree.cycles())
    for rule in RULES:
        checks.check(rule[2], tree.rule(*rule))
    checks.end()


main()
