#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Each message of docs/troubleshooting.md, and of docs/kubernetes.md, is said somewhere in the source: what stands in code in the first column of its tables, where ...
# stands for what differs. QEMU's and libvirt's own are theirs.
cd "$(dirname "$0")/../.." && exec python3 - <<'E2'
import re
import sys
from pathlib import Path

source = ""
for folder in ("base", "shm-device", "guest-allocator", "guest-uio", "host-bridge", "soft-gpu"):
    for file in sorted(Path(folder).rglob("*")):
        if file.suffix in (".cc", ".h", ".c"):
            text = file.read_text()
            text = re.sub(r"BARCUDA_VERSION", '""', text)  # "..." BARCUDA_VERSION "..." is one text
            source += re.sub(r'"\s*"', "", text).replace('\\"', '"') + "\n"
source = re.sub(r"%[-0-9.*#]*[a-zA-Z]|\{[^{}\n]*\}", "\0", source)  # what printf and fmt put in

wrong = seen = 0
tables = Path("docs/troubleshooting.md").read_text().split("\n## QEMU and libvirt")[0] + Path("docs/kubernetes.md").read_text()
for row in re.findall(r"^\| (.*?) \| [^|]* \| [^|]* \|$", tables, re.M):
    for _, message in re.findall(r"(`+)(.+?)\1(?!`)", row):
        for piece in (piece.strip() for piece in message.split("...")):
            piece = piece.strip(":;, ")
            if len(piece) < 8 or piece.endswith("="):  # too little to be looked for
                continue
            seen += 1
            if piece not in source:
                print(f"nobody says: {piece}")
                wrong += 1
print(f"{wrong} messages are nobody's" if wrong else "passed" if seen > 50 else f"only {seen} messages were found in the pages")
sys.exit(wrong > 0 or seen <= 50)
E2
