#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Makes the parts of the manual that come from a table.

gen_page.py conf TEMPLATE options.def      pghotd.conf(5) on stdout
gen_page.py counters TEMPLATE stats.def    pghotctl(1) on stdout

The template's lines @OPTIONS@, @ALIASES@ and @COUNTERS@ are replaced.
"""
import os
import re
import sys
import textwrap

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import options  # noqa: E402


def mdoc(text):
    """Plain text for mdoc: no line or word of it is taken for a request."""
    text = text.replace("\\", "\\e").replace('"', "\\(dq").replace("'", "\\(aq").replace("-", "\\-").replace("`", "\\(ga")
    return "\\&" + text if text[:1] == "." else text


def wrapped(text):
    """mdoc() in lines as narrow as mandoc wants them."""
    return "\n".join(mdoc(line) for line in textwrap.wrap(text, 68, break_long_words=False, break_on_hyphens=False))


def sentence(line):
    """The table's line as a sentence; a value at its start keeps its spelling."""
    first = line.split(" ", 1)[0]
    if not first.endswith(":") and "_" not in first and line != "":
        line = line[:1].upper() + line[1:]
    return line + ("" if line.endswith(".") else ".")


def default_of(row):
    value = row.get("default", "( )")    # a list of rules is empty
    if row["type"] in ("ENUM", "TEXT"):
        return f'"{value}"'
    if row["type"] == "LIST":
        return f'( "{value}" )' if value else "( )"
    return value


def allowed_of(row):
    if row["type"] in ("INT", "FLOAT"):
        number = "integer" if row["type"] == "INT" else "number"
        unit = row["unit"] + ", " if row["unit"] else ""
        return f"{unit}{number} from {row['min']} to {row['max']}"
    if row["type"] == "ENUM":
        return " or ".join(f'"{choice}"' for choice in row["choices"].split("|"))
    return {"BOOL": "true or false", "TEXT": f"text of up to {int(row.get('size', 1)) - 1} bytes",
            "LIST": "list of texts", "RULES": "list of rules, see RULES"}[row["type"]]


def option_items(rows):
    group = None
    for row in rows:
        head, dot, name = row["key"].rpartition(".")
        if head != group:
            if group is not None:
                yield ".El"
            yield f".Ss {'The group ' + head if dot else 'Outside of groups'}"
            yield ".Bl -tag -width Ds"
            group = head
        yield f".It Ic {mdoc(name)} = {mdoc(default_of(row))} ;"
        yield wrapped(sentence(row["line"]))
        yield mdoc(f"Allowed: {allowed_of(row)}.")
        if row["change"] == "RESTART":
            yield "Changing it takes a restart."
    yield ".El"


def conf(rows):
    aliases = [row for row in rows if row["type"] == "ALIAS"]
    real = [row for row in rows if row["type"] != "ALIAS"]
    # Groups together, in the order of their first option.
    order = list(dict.fromkeys(row["key"].rpartition(".")[0] for row in real))
    real.sort(key=lambda row: order.index(row["key"].rpartition(".")[0]))
    return {
        "OPTIONS": option_items(real),
        "ALIASES": [line for row in aliases for line in
                    (f".It Ic {mdoc(row['key'])}", f".Ic {mdoc(row['target'])}")],
    }


def counters(path):
    with open(path, encoding="utf-8") as file:
        text = file.read()
    string = r'"((?:\\.|[^"\\])*)"'
    rows = re.findall(rf"^STAT\(\w+, {string}, {string}, {string}, {string}\)$", text, re.M)
    if len(rows) != len(re.findall(r"^STAT\(", text, re.M)):
        raise SystemExit(f"{path}: a row is not understood")
    for row in rows:
        name, unit, line, tells = (re.sub(r"\\(.)", r"\1", word) for word in row)
        yield f".It Cm {mdoc(name)} Pq {mdoc(unit)}"
        yield wrapped(sentence(line))
        if tells:
            yield wrapped(tells)


def main():
    if len(sys.argv) != 4 or sys.argv[1] not in ("conf", "counters"):
        sys.exit("usage: gen_page.py conf|counters TEMPLATE TABLE")
    what, template, table = sys.argv[1:]
    parts = conf(options.read(table)) if what == "conf" else {"COUNTERS": counters(table)}
    with open(template, encoding="utf-8") as file:
        for line in file:
            mark = re.fullmatch(r"@(\w+)@", line.strip())
            print("\n".join(parts[mark[1]]) if mark else line.rstrip("\n"))


main()
