# SPDX-License-Identifier: Apache-2.0
"""The table of docs/recipes.md of what people expect: each row is answered by yes, in part or no; what is there at all names what shows it, a file of
the tree; what is not wholly there has its reason. None of the review's rows is missing."""
import re
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
TABLE = (TOP / "docs/recipes.md").read_text().partition("\n## What people expect\n")[2]
ROWS = [[cell.strip() for cell in row.strip("|").split(" |")] for row in re.findall(r"^\|.*\|$", TABLE, re.M)[2:]]
EXPECTED = ["apt install", "release", "images of containers", "see before installing", "nvidia-smi", "ctypes", "sudo PROGRAM", "nvcc", "Docker", "VS Code",
            "Jupyter", "pip install torch", "wheel", "Ansible", "Terraform", "NixOS", "Packer", "cloud-init", "Proxmox", "browser", "dnf install", "pacman",
            "Ubuntu", "Cloud Hypervisor", "Firecracker", "crosvm", "Windows", "ARM", "moving, suspending", "passthrough", "mature", "licence", "reports"]


def test_there_are_rows():
    assert len(ROWS) >= 25


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0][:40])
def test_each_is_answered_and_shown_or_has_its_reason(row):
    _, answer, shown = row
    kind, reason = re.fullmatch(r"(yes|in part|no)\b[:,]? ?(.*)", answer).groups()
    files = re.findall(r"`([^`]+)`", shown)
    assert all((TOP / file).exists() for file in files), files
    assert bool(files) == (kind != "no")
    assert kind == "yes" or len(reason) > 40, "why is it not wholly there?"


@pytest.mark.parametrize("word", EXPECTED)
def test_nothing_that_is_expected_is_left_out(word):
    assert any(word in row[0] for row in ROWS)
