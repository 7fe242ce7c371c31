# SPDX-License-Identifier: Apache-2.0
"""The table "What people expect" of docs/recipes.md: each row says yes, in part or no. Yes and in part name the files of the tree that show it; in part
and no give a reason. EXPECTED lists what must not be missing."""
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
