#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Makes completion of pghotd for a shell: gen_daemon_completion.py bash|zsh HELP options.def SCENARIOS

HELP is what pghotd --help prints, options.def the option table, SCENARIOS the folder that scenarios are installed in.
"""
import os
import re
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "man"))
import options  # noqa: E402


def flags(text):
    """[(letter, name, argument, line)]: each option of the help, and what it says of it."""
    found = []
    for letter, name, arg, line in re.findall(
            r"^  (?:-(\w), |    )--([a-z][a-z-]*)(?: ([A-Z][A-Za-z=.]*))?(?: +|\n +)(\S.*(?:\n {20,}\S.*)*)$", text, re.M):
        found.append((letter, name, arg, re.sub(r"\s+", " ", line)))
    if len(found) != len(re.findall(r"^ +(?:-\w, )?--", text, re.M)):
        sys.exit("an option of the help is not understood")
    return found


def settings(path):
    """{key: values to choose from}"""
    return {row["key"]: row["choices"].split("|") if row["type"] == "ENUM" else
            ["true", "false"] if row["type"] == "BOOL" else []
            for row in options.read(path) if row["type"] not in ("ALIAS", "RULES")}


# What an argument can be, by what the help calls it; KEY=VALUE and SCENARIO are their own.
KEYS = {"MODE": "mode", "NAME": "promote.policy"}


def bash(told, keys, scenarios):
    out = ["# SPDX-License-Identifier: GPL-2.0-or-later", "# Completion of pghotd for bash, made from its help and its option table.",
           "# shellcheck shell=bash disable=SC2207", "",
           "_pghotd_words() {", '\tCOMPREPLY=($(compgen -W "$1" -- "$cur"))', "}", "",
           "_pghotd_scenarios() {", "\tlocal path", f"\tfor path in {scenarios}/*.conf; do",
           '\t\t[ -e "$path" ] && path="${path##*/}" && echo "${path%.conf}"', "\tdone", "}", "",
           "# What follows an option, or KEY=.", "_pghotd_values() {", '\tcase $1 in']
    for letter, name, arg, _ in told:
        if not arg:
            continue
        words = (f"-{letter} | " if letter else "") + f"--{name}"
        if arg in KEYS:
            out.append(f"\t{words}) _pghotd_words '{' '.join(keys[KEYS[arg]])}' ;;")
        elif arg == "SCENARIO":
            out.append(f'\t{words}) COMPREPLY=($(compgen -f -W "$(_pghotd_scenarios)" -- "$cur")) ;;')
        elif arg.startswith("FILE"):
            out.append(f'\t{words}) COMPREPLY=($(compgen -f -- "$cur")) ;;')
        elif arg == "DIR":
            out.append(f'\t{words}) COMPREPLY=($(compgen -d -- "$cur")) ;;')
        elif arg == "KEY=VALUE":
            out += [f"\t{words})", f"\t\t_pghotd_words '{' '.join(keys)}'", "\t\t# A value follows.",
                    '\t\tif [ "${#COMPREPLY[@]}" -eq 1 ]; then', '\t\t\tCOMPREPLY=("${COMPREPLY[0]}=")',
                    "\t\t\tcompopt -o nospace 2>/dev/null", "\t\tfi", "\t\t;;"]
        else:
            out.append(f"\t{words}) ;;")
    for key, choices in keys.items():
        if choices:
            out.append(f"\t{key}) _pghotd_words '{' '.join(choices)}' ;;")
    out += ["\t*) return 1 ;;", "\tesac", "}", "", "_pghotd() {",
            '\tlocal cur="${COMP_WORDS[COMP_CWORD]}" prev=""', "\tCOMPREPLY=()",
            '\t[ "$COMP_CWORD" -gt 0 ] && prev="${COMP_WORDS[COMP_CWORD - 1]}"',
            "\t# bash makes words of KEY, = and VALUE, and of --mode, = and observe.",
            '\tif [ "$cur" = "=" ]; then', '\t\tcur=""', '\t\t_pghotd_values "$prev"', "\t\treturn", "\tfi",
            '\tif [ "$prev" = "=" ]; then', '\t\t_pghotd_values "${COMP_WORDS[COMP_CWORD - 2]}"', "\t\treturn", "\tfi",
            '\tcase $prev in', '\t-*) _pghotd_values "$prev" && return ;;', "\tesac",
            f"\t_pghotd_words '{' '.join('--' + name for _, name, _, _ in told)}'", "}", "", "complete -F _pghotd pghotd"]
    return out


def quoted(text):
    return "'" + text.replace("'", "'\\''") + "'"


def zsh(told, keys, scenarios):
    out = ["#compdef pghotd", "# SPDX-License-Identifier: GPL-2.0-or-later",
           "# Completion of pghotd for zsh, made from its help and its option table.", "",
           "_pghotd_setting() {", "\tif compset -P '*='; then", "\t\tcase ${${IPREFIX%=}##*=} in"]
    for key, choices in keys.items():
        if choices:
            out.append(f"\t\t{key}) compadd {' '.join(choices)} ;;")
    out += ["\t\tesac", "\telse", "\t\tcompadd -S = -q " + " ".join(keys), "\tfi", "}", "",
            "_pghotd_scenario() {", f"\tcompadd {scenarios}/*.conf(N:t:r)", "\t_files", "}", "",
            "_pghotd() {", "\t_arguments \\"]
    how = {"SCENARIO": "_pghotd_scenario", "FILE": "_files", "FILE.svg": "_files", "DIR": "_files -/", "KEY=VALUE": "_pghotd_setting"}
    for letter, name, arg, line in told:
        line = line.replace("[", "(").replace("]", ")").replace(":", "\\:")
        value = ""
        if arg:
            act = f"({' '.join(keys[KEYS[arg]])})" if arg in KEYS else how.get(arg, "")
            value = f":{arg.split('=')[0].lower()}:{act}"
        many = "*" if arg == "KEY=VALUE" else ""
        for word in (["-" + letter] if letter else []) + ["--" + name + ("=" if arg else "")]:
            out.append("\t\t" + quoted(f"{many}{word}[{line}]{value}") + " \\")
    out[-1] = out[-1][:-2]
    return out + ["}", "", '[ "$funcstack[1]" = _pghotd ] && _pghotd "$@"']


def main():
    if len(sys.argv) != 5 or sys.argv[1] not in ("bash", "zsh"):
        sys.exit("usage: gen_daemon_completion.py bash|zsh HELP options.def SCENARIOS")
    with open(sys.argv[2], encoding="utf-8") as file:
        told = flags(file.read())
    make = bash if sys.argv[1] == "bash" else zsh
    print("\n".join(make(told, settings(sys.argv[3]), sys.argv[4])))


main()
