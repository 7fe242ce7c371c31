# SPDX-License-Identifier: Apache-2.0
"""Each message of docs/troubleshooting.md, and of docs/containers.md, is said somewhere in the source: what stands in code in the first column
of its tables, where ... stands for what differs. QEMU's and libvirt's own are theirs."""
import re
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]


def said():
    """The source, with the texts that the compiler joins joined, and with a mark where printf and fmt put something in."""
    source = ""
    for folder in ("base", "shm-device", "guest-allocator", "guest-uio", "host-bridge", "soft-gpu"):
        for file in sorted((TOP / folder).rglob("*")):
            if file.suffix in (".cc", ".h", ".c"):
                text = re.sub(r"BARCUDA_VERSION", '""', file.read_text())  # "..." BARCUDA_VERSION "..." is one text
                source += re.sub(r'"\s*"', "", text).replace('\\"', '"') + "\n"
    return re.sub(r"%[-0-9.*#]*[a-zA-Z]|\{[^{}\n]*\}", "\0", source)


def pieces():
    """The parts of the pages' messages that are the same in each."""
    tables = (TOP / "docs/troubleshooting.md").read_text().split("\n## QEMU and libvirt")[0] + (TOP / "docs/containers.md").read_text()
    for row in re.findall(r"^\| (.*?) \| [^|]* \| [^|]* \|$", tables, re.M):
        for _, message in re.findall(r"(`+)(.+?)\1(?!`)", row):
            for piece in (piece.strip().strip(":;, ") for piece in message.split("...")):
                if len(piece) >= 8 and not piece.endswith("="):  # less is too little to be looked for
                    yield piece


def test_each_message_that_a_page_explains_is_in_the_source():
    source, messages = said(), list(pieces())
    assert [piece for piece in messages if piece not in source] == []
    assert len(messages) > 50, "messages of the pages were not found"
