#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Makes completion of pghotctl for a shell from its tables: gen_completion.py bash|zsh verbs.def options.def"""
import os
import re
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "man"))
import options  # noqa: E402

STRING = r'"((?:\\.|[^"\\])*)"'


def plain(text):
    return re.sub(r"\\(.)", r"\1", text)


def tables(path):
    """([(name, arguments, line)], [(letter, name, argument, verbs, line)])"""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    verbs = re.findall(rf"^VERB\(\w+, {STRING}, {STRING}, \d+, \d+, {STRING}\)$", text, re.M)
    flags = re.findall(rf"^FLAG\(\w+, (0|'\w'), {STRING}, (NULL|{STRING}), {STRING}, {STRING}\)$", text, re.M)
    if len(verbs) != len(re.findall(r"^VERB\(", text, re.M)) or len(flags) != len(re.findall(r"^FLAG\(", text, re.M)):
        sys.exit(f"{path}: a row is not understood")
    return ([tuple(plain(word) for word in verb) for verb in verbs],
            [("" if letter == "0" else letter[1], name, "" if arg == "NULL" else plain(inside), words, plain(line))
             for letter, name, arg, inside, words, line in flags])


def keys(path):
    """[(key, values to choose from)]"""
    found = []
    for row in options.read(path):
        if row["type"] == "ALIAS" or row.get("change") == "RESTART":
            continue
        found.append((row["key"], row["choices"].split("|") if row["type"] == "ENUM" else
                      ["true", "false"] if row["type"] == "BOOL" else []))
    return found


def bash(verbs, flags, settings):
    # What completes the value of a flag.
    how = {"FILE": 'COMPREPLY=($(compgen -f -- "$cur"))', "DIR": 'COMPREPLY=($(compgen -d -- "$cur"))',
           "PID": '_pghotctl_words "$(_pghotctl_pids)"', "NODE": '_pghotctl_words "$(_pghotctl_nodes)"'}
    out = ["# SPDX-License-Identifier: GPL-2.0-or-later",
           "# Completion of pghotctl for bash, made from its tables.",
           "# shellcheck shell=bash disable=SC2207", "",
           "_pghotctl_words() {", '\tCOMPREPLY=($(compgen -W "$1" -- "$cur"))', "}", "",
           "_pghotctl_pids() {", "\tlocal path", "\tfor path in /proc/[0-9]*; do", '\t\techo "${path#/proc/}"', "\tdone", "}", "",
           "_pghotctl_nodes() {", "\tlocal path", "\tfor path in /sys/devices/system/node/node[0-9]*; do",
           '\t\techo "${path##*node}"', "\tdone", "}", "",
           "# The words behind KEY=.", "_pghotctl_values() {", '\tcase $1 in']
    for key, choices in settings:
        if choices:
            out.append(f"\t{key}) _pghotctl_words '{' '.join(choices)}' ;;")
    out += ["\tesac", "}", "", "_pghotctl() {",
            '\tlocal cur="${COMP_WORDS[COMP_CWORD]}" prev="" verb="" i word',
            "\tCOMPREPLY=()",
            '\t[ "$COMP_CWORD" -gt 0 ] && prev="${COMP_WORDS[COMP_CWORD - 1]}"',
            "\tfor ((i = 1; i < COMP_CWORD; i++)); do",
            '\t\tword="${COMP_WORDS[i]}"',
            "\t\tcase $word in"]
    takers = "|".join("--" + name for _, name, arg, _, _ in flags if arg)
    out += [f"\t\t{takers}) ((i++)) ;;", "\t\t-*) ;;", "\t\t*)", '\t\t\tverb="$word"', "\t\t\tbreak", "\t\t\t;;", "\t\tesac", "\tdone",
            "\t# bash makes words of KEY, = and VALUE.",
            '\tif [ "$verb" = tune ] && [ "$cur" = "=" ]; then', '\t\tcur=""', '\t\t_pghotctl_values "$prev"', "\t\treturn", "\tfi",
            '\tif [ "$verb" = tune ] && [ "$prev" = "=" ]; then', '\t\t_pghotctl_values "${COMP_WORDS[COMP_CWORD - 2]}"',
            "\t\treturn", "\tfi", "\tcase $prev in"]
    for _, name, arg, _, _ in flags:
        if arg:
            act = how.get(arg) or (f"_pghotctl_words '{arg.replace('|', ' ')}'" if "|" in arg else ":")
            out += [f"\t--{name})", f"\t\t{act}", "\t\treturn", "\t\t;;"]
    out += ["\tesac", '\tif [ "${cur:0:1}" = - ]; then', "\t\tcase $verb in"]
    everywhere = ["--" + name for _, name, _, words, _ in flags if not words]
    for verb, _, _ in verbs:
        own = ["--" + name for _, name, _, words, _ in flags if verb in words.split("|")]
        if own:
            out.append(f"\t\t{verb}) _pghotctl_words '{' '.join(everywhere + own)}' ;;")
    every = ["--" + name for _, name, _, _, _ in flags]
    out += [f"\t\t\"\") _pghotctl_words '{' '.join(every)}' ;;", f"\t\t*) _pghotctl_words '{' '.join(everywhere)}' ;;", "\t\tesac",
            "\t\treturn", "\tfi", "\tcase $verb in", f"\t\"\") _pghotctl_words '{' '.join(verb for verb, _, _ in verbs)}' ;;"]
    for verb, args, _ in verbs:
        if "KEY" in args:
            out += [f"\t{verb})", f"\t\t_pghotctl_words '{' '.join(key for key, _ in settings)}'",
                    "\t\t# A value follows.",
                    '\t\tif [ "${#COMPREPLY[@]}" -eq 1 ]; then', '\t\t\tCOMPREPLY=("${COMPREPLY[0]}=")',
                    "\t\t\tcompopt -o nospace 2>/dev/null", "\t\tfi", "\t\t;;"]
        elif "PID" in args:
            out.append(f'\t{verb}) _pghotctl_words "$(_pghotctl_pids)" ;;')
        elif "|" in args:
            out.append(f"\t{verb}) _pghotctl_words '{args.strip('[]').replace('|', ' ')}' ;;")
    return out + ["\tesac", "}", "", "complete -F _pghotctl pghotctl"]


def quoted(text):
    return "'" + text.replace("'", "'\\''") + "'"


def zsh(verbs, flags, settings):
    how = {"FILE": "_files", "DIR": "_files -/", "PID": "_pids", "NODE": "{compadd /sys/devices/system/node/node<->(:t:s/node//)}"}
    out = ["#compdef pghotctl", "# SPDX-License-Identifier: GPL-2.0-or-later",
           "# Completion of pghotctl for zsh, made from its tables.", "",
           "_pghotctl_tune() {", "\tif compset -P '*='; then", "\t\tcase ${IPREFIX%=} in"]
    for key, choices in settings:
        if choices:
            out.append(f"\t\t{key}) compadd {' '.join(choices)} ;;")
    out += ["\t\tesac", "\telse", "\t\tcompadd -S = -q " + " ".join(key for key, _ in settings), "\tfi", "}", "",
            "_pghotctl_argument() {", "\t# The verb is the caller's.", "\tcase $verb in"]
    for verb, args, _ in verbs:
        if "KEY" in args:
            out.append(f"\t{verb}) _pghotctl_tune ;;")
        elif "PID" in args:
            out.append(f"\t{verb}) _pids ;;")
        elif "|" in args:
            out.append(f"\t{verb}) compadd {args.strip('[]').replace('|', ' ')} ;;")
    out += ["\tesac", "}", "", "_pghotctl() {", "\tlocal curcontext=$curcontext state line verb", "\tlocal -a verbs flags own",
            "\ttypeset -A opt_args", "\tverbs=("]
    for verb, _, line in verbs:
        out.append("\t\t" + quoted(f"{verb}:{line}"))
    out += ["\t)", "\tflags=("]
    takers = {}
    for letter, name, arg, words, line in flags:
        line = line.replace("[", "(").replace("]", ")").replace(":", "\\:")
        value = ""
        if arg:
            value = f":{arg.split('|')[0].lower()}:" + (how.get(arg) or (f"({arg.replace('|', ' ')})" if "|" in arg else ""))
        for word in (["-" + letter] if letter else []) + ["--" + name]:
            spec = quoted(f"{word}[{line}]{value}")
            if words:
                for verb in words.split("|"):
                    takers.setdefault(verb, []).append(spec)
            else:
                out.append("\t\t" + spec)
    out += ["\t)", "\t_arguments -C \"$flags[@]\" '1:verb:->verb' '*::argument:->argument' && return", "\tcase $state in",
            "\tverb) _describe verb verbs ;;", "\targument)", "\t\tverb=$words[1]", "\t\tcase $verb in"]
    for verb, specs in takers.items():
        out.append(f"\t\t{verb}) own=({' '.join(specs)}) ;;")
    return out + ["\t\tesac", "\t\t_arguments \"$flags[@]\" \"$own[@]\" '*:argument: _pghotctl_argument'", "\t\t;;", "\tesac",
                  "}", "", '[ "$funcstack[1]" = _pghotctl ] && _pghotctl "$@"']


def main():
    if len(sys.argv) != 4 or sys.argv[1] not in ("bash", "zsh"):
        sys.exit("usage: gen_completion.py bash|zsh verbs.def options.def")
    verbs, flags = tables(sys.argv[2])
    make = bash if sys.argv[1] == "bash" else zsh
    print("\n".join(make(verbs, flags, keys(sys.argv[3]))))


main()
