# SPDX-License-Identifier: GPL-2.0-or-later
"""Reads the option table, include/options.def."""
import re

ROW = re.compile(r"^OPTION_(\w+)\((.*)\)\s*$", re.M)
WORD = re.compile(r'\s*("(?:\\.|[^"\\])*"|[^,"]+)\s*(?:,|$)')
# The words of a row after its key; the identifier before the key is left out.
COLUMNS = {
    "INT": ("unit", "min", "max", "default", "change", "line"),
    "FLOAT": ("unit", "min", "max", "default", "change", "line"),
    "BOOL": ("default", "change", "line"),
    "ENUM": ("choices", "default", "change", "line"),
    "TEXT": ("size", "default", "change", "line"),
    "LIST": ("default", "change", "line"),
    "RULES": ("change", "line"),
    "ALIAS": ("target",),
}


def plain(word):
    word = word.strip()
    return re.sub(r"\\(.)", r"\1", word[1:-1]) if word.startswith('"') else word


def read(path):
    """A list of dicts, in the table's order: type, key and the type's columns."""
    with open(path, encoding="utf-8") as file:
        text = re.sub(r"/\*.*?\*/", "", file.read(), flags=re.S)
    rows = []
    for kind, inside in ROW.findall(text):
        words = [plain(word) for word in WORD.findall(inside)]
        if kind != "ALIAS":
            words = words[1:]
        if kind not in COLUMNS or len(words) != 1 + len(COLUMNS[kind]):
            raise SystemExit(f"{path}: OPTION_{kind}({inside}) is not understood")
        rows.append({"type": kind, "key": words[0], **dict(zip(COLUMNS[kind], words[1:]))})
    return rows
