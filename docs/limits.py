#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the table of docs/limits.md: the bridge's options that are limits, as the bridge itself describes them."""
import argparse
import re
import subprocess
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
BEGIN, END = "<!-- made by `make docs` -->\n", "<!-- end -->\n"

arguments = argparse.ArgumentParser(description=__doc__)
arguments.add_argument("--build", default="build")
arguments.add_argument("--check", action="store_true", help="only say whether the table is as it would be written")
options = arguments.parse_args()

written = subprocess.run([TOP / options.build / "bin/barcuda-bridge", "--print-config"], capture_output=True, text=True, check=True).stdout
limits = {}  # by name: who has one, and what it is
for text, whose, name in re.findall(r"^# (of [^\n]*)\n#(client|guest)-([\w-]+) =", written, re.M):
    unit, what, usual = re.match(r"[^,]*, ([^:]*): (.*) [(]default: (.*)[)]", text).groups()
    limits.setdefault(name, {"unit": unit, "what": what, "usual": usual.replace("no limit", "-")})[whose] = True
rows = [f"| `{name}` | {'yes' if 'client' in l else '-'} | {'yes' if 'guest' in l else '-'} | {l['unit']} | {l['usual']} | {l['what']} |\n"
        for name, l in limits.items()]
table = "| limit | `--client-NAME` | `--guest-NAME` | in | default | what it is |\n|---|---|---|---|---|---|\n" + "".join(rows)

page = TOP / "docs/limits.md"
old = page.read_text()
new = old[:old.index(BEGIN) + len(BEGIN)] + table + old[old.index(END):]
if options.check and new != old:
    sys.exit("docs/limits.md is not what `make docs` would write")
if not options.check:
    page.write_text(new)
