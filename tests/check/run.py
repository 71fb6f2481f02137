#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Builds pghotd in every way and runs every test. `bootstrap check` calls it once the packages are there.

Everything it writes is in build-check/. Each step has a time limit, so it always ends. The last line is
"N passed, N failed, N skipped", by test case over all variants.
"""
import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import summary  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
OUT = os.path.join(ROOT, "build-check")
LAB = os.path.join(ROOT, "tests", "lab", "lab")
SHOWN_LINES = 40    # of a log that failed
HEARTBEAT = 15      # seconds between signs of life

SANITIZED = ["-Db_lundef=false", "-Dc_args=-fno-sanitize-recover=all", "-Dman=false", "-Dsystemd_units=false"]
# name: (compiler, options, how much slower its tests may be)
VARIANTS = {
    "gcc": ("gcc", ["-Dtests=enabled"], 2),
    "clang": ("clang", ["-Dtests=enabled", "-Dman=false", "-Dsystemd_units=false"], 2),
    "asan": ("clang", ["-Dtests=enabled", "-Db_sanitize=address,undefined", "-Dfuzz=true", *SANITIZED], 4),
    "tsan": ("clang", ["-Dtests=enabled", "-Db_sanitize=thread", *SANITIZED], 6),
}
SANITIZER_ENVIRONMENT = {
    "ASAN_OPTIONS": "strict_string_checks=1:detect_stack_use_after_return=1:check_initialization_order=1",
    "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
    "TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1",
}
# Options that are no part of what a user gets, so --version does not name them.
NOT_FEATURES = {"tests", "fuzz", "bench"}


def say(text):
    print(text, flush=True)


class Step:
    """One command: its output in a log, a sign of life now and then, its end within a bound."""

    running = set()

    def __init__(self, log, words, seconds, env=None, echo=None):
        self.log = os.path.join(OUT, "logs", log)
        self.words, self.seconds, self.echo = words, seconds, echo
        self.output, self.last = [], ""
        self.started = time.monotonic()
        self.ended = True
        try:
            self.child = subprocess.Popen(words, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                          stderr=subprocess.STDOUT, text=True, errors="replace",
                                          env={**os.environ, **(env or {})}, start_new_session=True)
        except OSError as error:
            self.child, self.status = None, 127
            self.output = [f"{words[0]}: {error.strerror}"]
            return
        Step.running.add(self)
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def _read(self):
        with open(self.log, "w", encoding="utf-8") as file:
            for line in self.child.stdout:
                file.write(line)
                file.flush()
                line = line.rstrip("\n")
                self.output.append(line)
                if line and not line.startswith(">>>"):    # meson repeats a whole command line there
                    self.last = line
                if self.echo:
                    text = self.echo(line)
                    if text:
                        say("   " + text)

    def kill(self):
        for number, patience in ((signal.SIGTERM, 10), (signal.SIGKILL, 10)):
            try:
                os.killpg(self.child.pid, number)
                self.child.wait(patience)
            except (ProcessLookupError, subprocess.TimeoutExpired):
                pass
        Step.running.discard(self)

    def wait(self, quiet=False):
        """The exit status. 124 when it did not end in time."""
        if self.child is None:
            return self.status
        told = time.monotonic()
        end = self.started + self.seconds
        while True:
            try:
                self.status = self.child.wait(0.2)
                break
            except subprocess.TimeoutExpired:
                pass
            now = time.monotonic()
            if now > end:
                self.kill()
                self.ended, self.status = False, 124
                break
            if not quiet and now - told > HEARTBEAT:
                told = now
                say(f"   {now - self.started:4.0f} s  {self.last[:90]}")
        # A grandchild may still hold the pipe.
        self.thread.join(5)
        Step.running.discard(self)
        return self.status

    def text(self):
        return "\n".join(self.output)


def show_end(what, lines, log):
    lines = [line for line in lines if line.strip()]
    say(f"   {what}; the last of {os.path.relpath(log, ROOT)}:")
    for line in lines[-SHOWN_LINES:]:
        say(f"   | {line}")


class Check:
    def __init__(self, long, only):
        self.long, self.only = long, only
        self.counts = summary.Counts()
        self.sections = []
        self.built = set()
        self.fetching = None

    def section(self, name, work):
        if self.only and name.split()[0] not in self.only:
            return
        say(f"== {name}")
        started, counts = time.monotonic(), summary.Counts()
        work(counts)
        took = time.monotonic() - started
        self.sections.append((name, counts, took))
        self.counts.add(counts)
        say(f"   {name}: {counts} ({took:.0f} s)")

    def one(self, counts, name, words, seconds, env=None, not_reached=()):
        """A command that is one case, or as many as it says itself. A bar in @not_reached that is all it missed is a skip."""
        step = Step(name.replace(" ", "-") + ".log", words, seconds, env)
        status = step.wait()
        missed = [line for line in step.output if re.search(r"\(at (least|most) .*missed", line)]
        if status == 1 and step.ended and missed and all(line.split()[0] in not_reached for line in missed):
            counts.skip(f"{name}: not reached yet: {missed[0]}")
            return step
        result = summary.of_program(name, step.text(), status, step.ended)
        if result.failed:
            show_end(f"{name} failed", step.output, step.log)
        counts.add(result)
        return step

    # ---- building and unit tests ------------------------------------------------------

    def build(self, counts, name, compiler, options):
        folder = os.path.join(OUT, name)
        if not shutil.which(compiler):
            counts.skip(f"{name}: {compiler} is not installed")
            return False
        known = os.path.join(folder, "options.json")
        try:
            with open(known, encoding="utf-8") as file:
                same = json.load(file) == [ROOT, compiler, options]
        except (OSError, ValueError):
            same = False
        if not same or not os.path.exists(os.path.join(folder, "build.ninja")):
            shutil.rmtree(folder, ignore_errors=True)
            step = Step(f"{name}-configure.log", ["meson", "setup", folder, *options], 300, {"CC": compiler})
            if step.wait() != 0:
                show_end("can't configure", step.output, step.log)
                counts.fail(f"{name}: can't be configured")
                return False
            with open(known, "w", encoding="utf-8") as file:
                json.dump([ROOT, compiler, options], file)
        step = Step(f"{name}-build.log", ["ninja", "-C", folder], 1200)
        if step.wait() != 0:
            show_end("the build failed", step.output, step.log)
            counts.fail(f"{name}: does not build")
            return False
        counts.ok()
        self.built.add(name)
        return True

    def tests(self, counts, name, label, slower, more=(), seconds=1200):
        folder = os.path.join(OUT, name)
        log = f"testlog-{label}"
        logs = os.path.join(folder, "meson-logs")
        # meson adds the wrapper's name to that of the log.
        for old in os.listdir(logs):
            if old.startswith(log):
                os.unlink(os.path.join(logs, old))
        words = ["meson", "test", "-C", folder, "--no-rebuild", "--num-processes", "2", "--logbase", log,
                 "-t", str(slower), *more]
        # A test may do less where it is slow, or skip what can't work there.
        step = Step(f"{label}-tests.log", words, seconds, {**SANITIZER_ENVIRONMENT, "PGHOT_TEST_UNDER": label})
        status = step.wait()
        found = [os.path.join(logs, file) for file in os.listdir(logs)
                 if file.startswith(log) and file.endswith(".json")]
        if not step.ended or not found:
            show_end("the tests did not end" if not step.ended else "no test ran", step.output, step.log)
            counts.fail(f"{label}: {'the tests did not end in time' if not step.ended else 'no test ran'}")
            return
        result, failed = summary.of_meson(found[0], label)
        for case, output in failed:
            show_end(f"{case} failed", output.splitlines(), found[0].replace(".json", ".txt"))
        counts.add(result)
        if status != 0 and not result.failed:
            show_end("meson test failed", step.output, step.log)
            counts.fail(f"{label}: meson test ended with status {status}")

    def variant(self, name, suites):
        compiler, options, slower = VARIANTS[name]

        def work(counts):
            if self.build(counts, name, compiler, options):
                more = [word for suite in suites for word in ("--suite", suite)]
                # Address space layout with more random bits than clang 14's sanitizers know is turned off.
                if "b_sanitize" in " ".join(options) and can_run(["setarch", "-R", "true"]):
                    more += ["--wrapper", "setarch -R"]
                if self.long:
                    more += ["--repeat", "5"]
                self.tests(counts, name, name, slower, more, 3600 if self.long else 1200)
        self.section(name, work)

    def simulate(self, counts):
        if "gcc" not in self.built:
            counts.skip("simulate: the gcc build failed")
            return
        more = ["--suite", "simulate"]
        if self.long:
            more.append("--test-args=--long")
        self.tests(counts, "gcc", "simulate", 6 if self.long else 2, more, 3600 if self.long else 1500)

    def valgrind(self, counts):
        if not shutil.which("valgrind"):
            counts.skip("valgrind: not installed")
        elif "gcc" not in self.built:
            counts.skip("valgrind: the gcc build failed")
        else:
            wrap = "valgrind -q --error-exitcode=99 --leak-check=full --errors-for-leak-kinds=definite --fair-sched=try"
            self.tests(counts, "gcc", "valgrind", 15, ["--suite", "unit", "--wrapper", wrap], 1500)

    def threads(self, counts):
        """Collectors, janitor and scanners at once, under the thread sanitizer, longer than its unit test."""
        if "tsan" not in self.built:
            counts.skip("threads: there is no build with the thread sanitizer")
            return
        seconds = 60 if self.long else 5
        words = [os.path.join(OUT, "tsan", "tests", "unit", "test_hotness_threads"), str(seconds)]
        if can_run(["setarch", "-R", "true"]):
            words = ["setarch", "-R", *words]
        self.one(counts, f"threads {seconds} s", words, seconds * 4 + 120, SANITIZER_ENVIRONMENT)

    # ---- benchmarks -------------------------------------------------------------------

    # Bars that no build has reached; README has the figures. The benchmark itself still ends with 1.
    NOT_REACHED = {"pipeline_ratio"}

    def bench(self, counts):
        """Each ends with 1 when it misses a bar; what it measured is in its log."""
        if not self.build(counts, "bench", "gcc", ["-Dbench=true", "-Dtests=disabled", "-Dman=false",
                                                   "-Dsystemd_units=false"]):
            return
        folder = os.path.join(OUT, "bench")
        longer = 10 if self.long else 1
        for name, more in (("decode", []), ("memory", ["--daemon", os.path.join(folder, "src", "pghotd")]),
                           ("scan", [f"--seconds={4 * longer}"]), ("pipeline", [f"--seconds={5 * longer}"]),
                           ("map", [f"--seconds={8 * longer}"])):
            step = self.one(counts, f"bench {name}", [os.path.join(folder, "tests", "bench", f"bench_{name}"), *more],
                            260 + 40 * longer, {"TEST_MACHINES": os.path.join(ROOT, "tests", "unit", "machines")},
                            self.NOT_REACHED)
            for line in step.output:
                if re.search(r"\((at least|at most) ", line):
                    say(f"   {line}")

    # ---- everything left out -----------------------------------------------------------

    def bare(self, counts):
        done = subprocess.run(["meson", "introspect", "--buildoptions", os.path.join(ROOT, "meson.build")],
                              capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL, check=False)
        try:
            ours = [option for option in json.loads(done.stdout) if option["section"] == "user"]
        except ValueError:
            counts.fail("bare: meson can't list the options")
            return
        # meson calls a feature a choice of three.
        off = {option["name"]: "false" if option["type"] == "boolean" else "disabled" for option in ours
               if option["type"] == "boolean" or "disabled" in option.get("choices", ())}
        left_out = list(off)
        options = [f"-D{name}={value}" for name, value in off.items()]
        # As packagers build it; assertions gone shows variables that only they use.
        options += ["-Db_ndebug=true", "-Dbuildtype=release"]
        if not self.build(counts, "bare", "gcc", options):
            return
        step = self.one(counts, "bare --version", [os.path.join(OUT, "bare", "src", "pghotd"), "--version"], 60)
        for name in left_out:
            if name in NOT_FEATURES:
                continue
            if re.search(rf"\b{re.escape(name)}\b", step.text()):
                counts.ok()
            else:
                counts.fail(f"bare: pghotd --version does not say that it lacks {name}")

    # ---- installing ---------------------------------------------------------------------

    def install(self, counts):
        if "gcc" not in self.built:
            counts.skip("install: the gcc build failed")
            return
        target = os.path.join(OUT, "destdir")
        shutil.rmtree(target, ignore_errors=True)
        step = self.one(counts, "install", ["meson", "install", "-C", os.path.join(OUT, "gcc"), "--no-rebuild",
                                            "--destdir", target], 120)
        if step.status != 0:
            return
        there = {os.path.relpath(os.path.join(folder, file), target)
                 for folder, _, files in os.walk(target) for file in files}
        exporter = (r"sbin/pghotd-exporter$", r"pghotd-exporter\.service$", r"pghotd-exporter\.socket$", r"man8/pghotd-exporter\.8")
        if not os.path.exists(os.path.join(OUT, "gcc", "src", "pghotd-exporter")):
            counts.skip("install: the exporter is not built: libmicrohttpd is not installed")
            exporter = ()
        for pattern in (*exporter, r"s?bin/pghotd$", r"bin/pghotctl$", r"etc/pghotd\.conf$", r"pghotd\.service$", r"lib/systemd/catalog/pghotd\.catalog$",
                        r"pghotd-helper\.service$", r"pghotd-helper\.socket$", r"sysusers\.d/pghotd\.conf$",
                        r"man8/pghotd\.8", r"man1/pghotctl\.1", r"man5/pghotd\.conf\.5", r"man5/pghot-scenario\.5",
                        r"share/pghotd/scenarios/chase\.conf$", r"share/pghotd/prometheus/pghotd\.rules\.yml$",
                        r"share/pghotd/grafana/pghotd\.json$", r"dbus-1/system\.d/org\.pghot1\.conf$",
                        r"share/bash-completion/completions/pghotctl$", r"share/zsh/site-functions/_pghotctl$",
                        r"share/bash-completion/completions/pghotd$", r"share/zsh/site-functions/_pghotd$"):
            if any(re.search(pattern, path) for path in there):
                counts.ok()
            else:
                counts.fail(f"install: nothing installed matches {pattern}")

        debian = os.path.join(ROOT, "tests", "check", "debian.sh")
        self.one(counts, "debian", [debian, os.path.join(OUT, "debian"), target], 1200)

    # ---- fuzzing ------------------------------------------------------------------------

    def fuzz(self, counts):
        if "asan" not in self.built:
            counts.skip("fuzz: there is no sanitized build by clang")
            return
        folder = os.path.join(OUT, "asan", "tests", "fuzz")
        programs = sorted(name for name in (os.listdir(folder) if os.path.isdir(folder) else [])
                          if name.startswith("fuzz_") and os.access(os.path.join(folder, name), os.X_OK)
                          and os.path.isfile(os.path.join(folder, name)))
        if not programs:
            counts.skip("fuzz: the build has no fuzz program")
        seconds = 600 if self.long else 10
        while programs:
            pair, programs = programs[:2], programs[2:]
            steps = []
            for name in pair:
                corpus = os.path.join(OUT, "corpus", name)
                os.makedirs(corpus, exist_ok=True)
                seeds = os.path.join(ROOT, "tests", "fuzz", "corpus", name[len("fuzz_"):])
                words = [os.path.join(folder, name), f"-max_total_time={seconds}", "-timeout=60",
                         "-rss_limit_mb=2048", "-print_final_stats=1",
                         f"-artifact_prefix={corpus}/../{name}-", corpus]
                steps.append(Step(f"{name}.log", words + ([seeds] if os.path.isdir(seeds) else []),
                                  seconds + 240, SANITIZER_ENVIRONMENT))
            for name, step in zip(pair, steps):
                status = step.wait()
                runs = re.search(r"number_of_executed_units: (\d+)", step.text())
                say(f"   {name}: {runs[1] if runs else '?'} inputs, status {status}")
                result = summary.of_program(name, "", status, step.ended)
                if result.failed:
                    show_end(f"{name} failed", step.output, step.log)
                counts.add(result)

    # ---- the lab ------------------------------------------------------------------------

    def fetch_promtool(self):
        """Where it can't be had, the test of the metrics says what it skips."""
        if self.only and "gcc" not in self.only:
            return
        tool = os.path.join(ROOT, "tests", "check", "promtool.py")
        Step("promtool-fetch.log", [tool, "--fetch"], 300).wait()
        folder = Step("promtool.log", [tool], 30)
        if folder.wait() == 0:
            os.environ["PATH"] += os.pathsep + folder.last

    def start_fetch(self):
        if not self.only or "lab" in self.only:
            self.fetching = Step("lab-fetch.log", [LAB, "fetch", "--debian"], 1200)

    def lab(self, counts):
        def event(line):
            return line if re.match(r"(ok|not ok|skip|#|lab:|    )", line) else None

        status = self.fetching.wait()
        if status == summary.SKIPPED:
            counts.skip(f"lab: {self.fetching.last}")
            return
        if status != 0:
            show_end("the lab's machine can't be fetched", self.fetching.output, self.fetching.log)
            counts.fail("lab: its machine can't be fetched")
            return
        if "gcc" not in self.built:
            counts.skip("lab: the gcc build failed")
            return
        sys.path.insert(0, os.path.dirname(LAB))
        import labvm
        # One boot for all tests that need the same machine.
        machines = {}
        for test in labvm.all_tests().values():
            machines.setdefault((test.machine, getattr(test, "ibs", None)), []).append(test)
        if not machines:
            counts.fail("lab: it lists no test")
        build = os.path.join(OUT, "gcc")
        programs = ["src/pghotd", "src/pghotctl", "tests/lab/hotset", "tests/lab/movecost",
                    "tests/lab/outcomes", "tests/lab/trouble", "tests/cli/crowd"]
        # For the machine that has it installed.
        tree = os.path.join(OUT, "lab-tree")
        shutil.rmtree(tree, ignore_errors=True)
        self.one(counts, "lab install", ["meson", "install", "-C", build, "--no-rebuild", "--destdir", tree], 120)
        for turn in range(3 if self.long else 1):
            for (machine, ibs), tests in machines.items():
                machine = f"{machine}-{ibs}" if ibs else machine
                bound = labvm.HOST_FACTOR * sum(test.seconds for test in tests) + 800
                words = [LAB, "boot", "--out", os.path.join(OUT, f"lab-{machine}-{turn}"), "--tree", tree]
                for program in programs:
                    words += ["--bin", os.path.join(build, program)]
                if self.long:
                    words += ["--append", "lab.long"]
                names = [test.name for test in tests]
                say(f"   booting {machine} for {', '.join(names)}")
                step = Step(f"lab-{machine}-{turn}.log", words + names, bound, echo=event)
                status = step.wait(quiet=True)
                result = summary.of_program(f"lab {machine}", step.text(), status, step.ended)
                if result.failed:
                    say(f"   lab {machine} failed; more is in {os.path.relpath(words[3], ROOT)}")
                counts.add(result)
        perf_check = os.path.join(ROOT, "tests", "lab", "ibs", "perf_check.py")
        # Where perf can't be fetched, the check is skipped and says why.
        Step("perf-fetch.log", [perf_check, "--fetch"], 300).wait()
        self.one(counts, "perf decodes alike", [perf_check, "--build", build, "--out", os.path.join(OUT, "lab-perf")], 700)

    # ---- all of it ----------------------------------------------------------------------

    def report(self, took):
        say("== result")
        for name, counts, seconds in self.sections:
            say(f"   {name:<10} {seconds:5.0f} s  {counts}")
        say(f"   {'in all':<10} {took:5.0f} s")
        # Most skips are the same in every variant.
        reasons = {}
        for text in self.counts.skips:
            where, _, why = text.partition(": ")
            reasons.setdefault(why, {})[where] = None
        for why, where in reasons.items():
            say(f"   skipped in {', '.join(where)}: {why}")
        for text in dict.fromkeys(self.counts.failures):
            say(f"   FAILED: {text}")
        if self.counts.failed:
            say("   logs: build-check/logs and build-check/*/meson-logs")
        say(str(self.counts))
        return 1 if self.counts.failed or not self.counts.passed else 0


def can_run(words):
    try:
        return subprocess.run(words, capture_output=True, timeout=60, stdin=subprocess.DEVNULL, check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def main():
    parser = argparse.ArgumentParser(description="Builds pghotd in every way and runs every test.")
    parser.add_argument("--long", action="store_true", help="fuzz for ten minutes each, repeat the tests")
    parser.add_argument("--only", action="append", metavar="SECTION",
                        help="gcc, simulate, valgrind, clang, asan, fuzz, tsan, threads, bench, bare, install, "
                             "lab; repeatable")
    options = parser.parse_args()

    def end(number, _frame):
        raise SystemExit(128 + number)

    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, end)
    started = time.monotonic()
    os.makedirs(os.path.join(OUT, "logs"), exist_ok=True)
    check = Check(options.long, options.only)
    try:
        check.fetch_promtool()
        check.start_fetch()
        check.variant("gcc", ["unit", "check", "cli", "spin"])
        check.section("simulate", check.simulate)
        check.section("valgrind", check.valgrind)
        check.variant("clang", ["unit"])
        check.variant("asan", ["unit"])
        check.section("fuzz", check.fuzz)
        check.variant("tsan", ["unit"])
        check.section("threads", check.threads)
        check.section("bench", check.bench)
        check.section("bare", check.bare)
        check.section("install", check.install)
        check.section("lab", check.lab)
        return check.report(time.monotonic() - started)
    finally:
        for step in list(Step.running):
            step.kill()


if __name__ == "__main__":
    sys.exit(main())
