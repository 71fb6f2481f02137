#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs scenarios and holds the results against bars.py: run.py PGHOTD [--long] [--seeds 1,2] [SCENARIO...]

Without --long one seed, with it three. Prints what each run came to; ends with 77 when nothing could be judged.
"""
import argparse
import json
import os
import subprocess
import sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, "tests", "check"))
sys.path.insert(0, HERE)
import bars  # noqa: E402
import cases  # noqa: E402

SECONDS = 600    # for one run, on a machine that others use too
BAD_CONFIG = 78


class Simulator:
    def __init__(self, program):
        self.program, self.results, self.lacks = program, {}, {}

    def words(self, scenario, policy, seed, settings):
        words = [self.program, "--simulate", os.path.join(ROOT, "conf", "scenarios", scenario + ".conf"),
                 "--policy", policy, "--set", f"seed={seed}", "--json"]
        for key, value in settings.items():
            words += ["--set", f"{key}={value}"]
        return words

    def lacks_policy(self, policy):
        """Why it can't be simulated, or None."""
        if policy not in self.lacks:
            done = subprocess.run(self.words("chase-tenth", policy, 1, {"seconds": "1"}), capture_output=True, text=True,
                                  timeout=SECONDS, stdin=subprocess.DEVNULL, check=False)
            refused = done.returncode == BAD_CONFIG and "promote.policy" in done.stderr
            self.lacks[policy] = f"this build has no policy \"{policy}\"" if refused else None
        return self.lacks[policy]

    def run(self, scenario, policy, seed, settings):
        key = (scenario, policy, seed, tuple(settings.items()))
        if key not in self.results:
            done = subprocess.run(self.words(scenario, policy, seed, settings), capture_output=True, text=True,
                                  timeout=SECONDS, stdin=subprocess.DEVNULL, check=False)
            if done.returncode != 0:
                raise RuntimeError(f"status {done.returncode}: {done.stderr.strip()}")
            self.results[key] = json.loads(done.stdout)
            print("  " + describe(self.results[key]), flush=True)
        return self.results[key]


def describe(r):
    return (f"{r['scenario']} {r['policy']} seed {r['seed']}: {r['samples']} samples, near {r['coverage']:.1%}, decided "
            f"{r['decided']:.1%}, over {r['over_promotion']:.2%}, hits {r['hit_ratio']:.2%} (oracle "
            f"{r['oracle_hit_ratio']:.2%}, samples {r['sample_oracle_hit_ratio']:.2%}), moved "
            f"{r['moved_bytes'] / bars.GIB:.2f} GiB, speed {r['speedup']:.3f}; {r['user_seconds']:.2f} s of CPU, "
            f"{r['user_seconds'] / r['seconds']:.2%} of a core (1% is {r['seconds'] / 100:.2f} s), "
            f"{r['map_bytes'] / bars.MIB:.1f} MiB of tables")


def judge(simulator, checks, scenario, seed):
    for name, runs, bar in bars.BARS[scenario]:
        what = f"{scenario}, seed {seed}: {name}"
        lacks = next(filter(None, (simulator.lacks_policy(policy) for policy, _ in runs)), None)
        if lacks:
            checks.skip(what, lacks)
            continue
        try:
            results = [simulator.run(scenario, policy, seed, settings) for policy, settings in runs]
            checks.check(what, list(filter(None, bar(*results))))
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            checks.check(what, [str(error)])


def main():
    parser = argparse.ArgumentParser(description="Runs scenarios and holds the results against their bars.")
    parser.add_argument("program")
    parser.add_argument("scenarios", nargs="*", metavar="SCENARIO")
    parser.add_argument("--long", action="store_true", help="three seeds")
    parser.add_argument("--seeds", help="these, by commas")
    options = parser.parse_intermixed_args()
    for scenario in options.scenarios:
        if scenario not in bars.BARS:
            parser.error(f"there is no scenario {scenario}")
    seeds = [int(seed) for seed in options.seeds.split(",")] if options.seeds else [1, 2, 3] if options.long else [1]
    checks, simulator = cases.Cases("simulate"), Simulator(options.program)
    for scenario in options.scenarios or bars.BARS:
        for seed in seeds:
            judge(simulator, checks, scenario, seed)
    checks.end()


main()
