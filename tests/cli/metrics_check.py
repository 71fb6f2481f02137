#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Holds metrics to their format, and what ships beside them to their names.

metrics_check.py open FILE             OpenMetrics 1.0, as strictly as its text says
metrics_check.py names FILE SHIPPED... every pghotd_ name in the shipped files is one of FILE's samples
metrics_check.py table FILE stats.def  every counter of the table is there
"""
import re
import sys

LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"(?:,|$)')
SAMPLE = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)")
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?")


def fail(number, what):
    raise SystemExit(f"line {number}: {what}")


def families(text):
    """{family: [type, unit, help, {labels: value}]}"""
    found, name, seen = {}, None, set()
    lines = text.split("\n")
    if lines[-2:] != ["# EOF", ""]:
        raise SystemExit("the last line is not # EOF")
    for number, line in enumerate(lines[:-2], 1):
        meta = re.fullmatch(r"# (TYPE|UNIT|HELP) ([a-zA-Z_]\w*) (.+)", line)
        if meta:
            if meta[1] == "TYPE":
                name = meta[2]
                if name in found:
                    fail(number, f"family {name} comes twice")
                if meta[3] not in ("gauge", "counter"):
                    fail(number, f"type {meta[3]}")
                found[name] = [meta[3], "", "", {}]
            elif meta[2] != name or found[name][3]:
                fail(number, "metadata is not in front of its family's samples")
            elif meta[1] == "UNIT":
                found[name][1] = meta[3]
                if not name.endswith("_" + meta[3]):
                    fail(number, f"{name} does not end in its unit")
            else:
                found[name][2] = meta[3]
                if '"' in meta[3] or "\\" in meta[3]:
                    fail(number, "a help that would have to be escaped")
            continue
        sample = SAMPLE.fullmatch(line)
        if not sample:
            fail(number, f"neither metadata nor a sample: {line}")
        if name is None or sample[1] != name + ("_total" if found[name][0] == "counter" else ""):
            fail(number, f"{sample[1]} stands in family {name}")
        labels, rest = [], sample[2] or ""
        while rest:
            label = LABEL.match(rest)
            if not label:
                fail(number, f"labels {sample[2]}")
            labels.append((label[1], label[2]))
            rest = rest[label.end():]
        if len(set(key for key, _ in labels)) != len(labels):
            fail(number, "a label comes twice")
        key = (sample[1], tuple(sorted(labels)))
        if key in seen:
            fail(number, "the sample comes twice")
        seen.add(key)
        if not NUMBER.fullmatch(sample[3]) or (found[name][0] == "counter" and sample[3].startswith("-")):
            fail(number, f"value {sample[3]}")
        found[name][3][tuple(labels)] = sample[3]
    for name, (_, _, help_, _) in found.items():
        if not help_:
            raise SystemExit(f"{name} has no help")
    return found


def sample_names(found):
    return {name + ("_total" if kind == "counter" else "") for name, (kind, _, _, samples) in found.items() if samples}


def main():
    with open(sys.argv[2], encoding="utf-8") as file:
        found = families(file.read())
    if sys.argv[1] == "names":
        names = sample_names(found)
        used = set()
        for path in sys.argv[3:]:
            with open(path, encoding="utf-8") as file:
                used |= set(re.findall(r"\bpghotd_\w+", file.read()))
        if len(used) < 10:
            raise SystemExit(f"only {len(used)} names found in {sys.argv[3:]}")
        if used - names:
            raise SystemExit("no such metrics: " + ", ".join(sorted(used - names)))
    elif sys.argv[1] == "table":
        with open(sys.argv[3], encoding="utf-8") as file:
            rows = len(re.findall(r"^STAT\(", file.read(), re.M))
        counters = [name for name, row in found.items() if row[0] == "counter" and () in row[3]]
        if len(counters) != rows:
            raise SystemExit(f"{len(counters)} counters of {rows}")


main()
