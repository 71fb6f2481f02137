#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Writes tests/report/simulation.md with a picture of each scenario under each policy: report.py PGHOTD [SCENARIO...]

Scenarios that aren't named keep their pictures and their rows, as they were made before. README.md shows the one picture
that has both policies, of chase.
"""
import json
import os
import re
import subprocess
import sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
REPORT = os.path.join(ROOT, "tests", "report")
sys.path.insert(0, HERE)
import bars  # noqa: E402

SECONDS = 900
BAD_CONFIG = 78
POLICIES = ("region", "page")
COMPARED = "chase"
HEAD = """# Simulation

The daemon's own code on models of machines and programs, see pghot-scenario(5). Made by

    tests/simulate/report.py build/src/pghotd

with seed 1. The bars that the results are held against are in tests/simulate/bars.py, and `meson test --suite simulate`
holds them.

- near: share of the hot set that is on the fast nodes at the end; over: what was moved and isn't hot, in parts of the
  hot set
- hits: share of the accesses that go to the fast nodes, in the last tenth of the time; best: of who knows all accesses;
  samples: of who knows all samples from the start
- speed: accesses made, in parts of those with nothing moved; CPU: of the daemon's own code, in parts of one core

| scenario | policy | samples | hot GiB | near | over | 99% near | hits | best | samples | moved GiB | speed | CPU |
|---|---|---|---|---|---|---|---|---|---|---|---|---|
"""


def paths(scenario, policy):
    name = f"{scenario}-{policy}"
    return os.path.join(REPORT, "simulation", name + ".svg"), os.path.join(REPORT, "simulation", name + ".row")


def compare(scenario):
    """One picture of all policies, one below the other."""
    pictures = []
    for policy in POLICIES:
        with open(paths(scenario, policy)[0], encoding="utf-8") as file:
            pictures.append(file.read())
    size = re.match(r"<svg [^>]*width='(\d+)' height='(\d+)'", pictures[0])
    width, height = int(size[1]), int(size[2])
    with open(os.path.join(REPORT, "simulation", f"{scenario}.svg"), "w", encoding="utf-8") as file:
        file.write(f"<svg xmlns='http://www.w3.org/2000/svg' width='{width}' height='{height * len(pictures)}' "
                   f"viewBox='0 0 {width} {height * len(pictures)}'>\n")
        for i, picture in enumerate(pictures):
            file.write(picture.replace("<svg ", f"<svg y='{i * height}' ", 1))
        file.write("</svg>\n")


def row(r):
    time = f"{r['time_to_99']:.0f} s" if r["time_to_99"] is not None else "-"
    cells = (r["scenario"], r["policy"], f"{r['samples'] / 1e6:.2f} M", f"{r['hot_bytes'] / bars.GIB:.1f}",
             f"{r['coverage']:.1%}", f"{r['over_promotion']:.1%}", time, f"{r['hit_ratio']:.1%}",
             f"{r['oracle_hit_ratio']:.1%}", f"{r['sample_oracle_hit_ratio']:.1%}",
             f"{r['moved_bytes'] / bars.GIB:.1f}", f"{r['speedup']:.2f}", f"{r['user_seconds'] / r['seconds']:.2%}")
    return "| " + " | ".join(cells) + " |"


def make(program, scenario, policy):
    picture, kept = paths(scenario, policy)
    os.makedirs(os.path.dirname(picture), exist_ok=True)
    done = subprocess.run([program, "--simulate", os.path.join(ROOT, "conf", "scenarios", scenario + ".conf"), "--policy",
                           policy, "--json", f"--plot={picture}"], capture_output=True, text=True, timeout=SECONDS,
                          stdin=subprocess.DEVNULL, check=False)
    if done.returncode == BAD_CONFIG and "promote.policy" in done.stderr:
        return
    if done.returncode != 0:
        sys.exit(f"{scenario}, {policy}: {done.stderr.strip()}")
    line = row(json.loads(done.stdout))
    with open(kept, "w", encoding="utf-8") as file:
        file.write(line + "\n")
    print(line, flush=True)


def main():
    if len(sys.argv) < 2 or any(name not in bars.BARS for name in sys.argv[2:]):
        sys.exit(__doc__.strip())
    for scenario in sys.argv[2:] or bars.BARS:
        for policy in POLICIES:
            make(sys.argv[1], scenario, policy)
    compare(COMPARED)
    made = [(scenario, policy) for scenario in bars.BARS for policy in POLICIES
            if os.path.exists(paths(scenario, policy)[1])]
    with open(os.path.join(REPORT, "simulation.md"), "w", encoding="utf-8") as report:
        report.write(HEAD)
        for scenario, policy in made:
            with open(paths(scenario, policy)[1], encoding="utf-8") as file:
                report.write(file.read())
        for scenario in bars.BARS:
            pictures = [policy for name, policy in made if name == scenario]
            if pictures:
                report.write(f"\n## {scenario}\n")
            for policy in pictures:
                report.write(f"\n![{scenario}, policy {policy}](simulation/{scenario}-{policy}.svg)\n")


main()
