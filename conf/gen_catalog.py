#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Makes the journal's catalogue, which journalctl -x shows, from the table of messages: gen_catalog.py messages.def"""
import re
import sys
import textwrap


def read(path):
    """[(id, event, uuid, subject, text)]"""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    string = r'"((?:\\.|[^"\\])*)"'
    rows = re.findall(rf"^MESSAGE\((\w+), {string}, {string}, LOG_\w+, \d+, {string}, {string}\)$", text, re.M)
    if len(rows) != len(re.findall(r"^MESSAGE\(", text, re.M)):
        sys.exit(f"{path}: a row is not understood")
    return [tuple(re.sub(r"\\(.)", r"\1", word) for word in row) for row in rows]


def main():
    print("# SPDX-License-Identifier: GPL-2.0-or-later")
    for _, _, uuid, subject, text in read(sys.argv[1]):
        print(f"\n-- {uuid}\nSubject: {subject}\nDefined-By: pghotd\nDocumentation: man:pghotd(8)")
        if text:
            print("\n" + textwrap.fill(text, 78, break_on_hyphens=False))


if __name__ == "__main__":
    main()
