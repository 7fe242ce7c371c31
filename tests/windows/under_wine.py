# SPDX-License-Identifier: Apache-2.0
"""under_wine.py: Windows programs on this machine. What is missing skips the test, which says how it is had."""
import os
import shutil
import subprocess
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
BUILD = TOP / os.environ.get("BUILD", "build")
PATIENCE = 120


def need_built(*files):
    if not shutil.which("x86_64-w64-mingw32-g++-posix"):
        pytest.skip("g++-mingw-w64-x86-64-posix is not installed: make windows")
    for file in files:
        assert file.exists(), f"{file} is not there: make windows"


def environment():
    """Wine's own folder is made at its first program, and kept with the build."""
    if not shutil.which("wine"):
        pytest.skip("wine is not installed: make windows")
    # No Mono, no browser, no desktop's menus: none of our programs has use for them.
    return os.environ | {"WINEPREFIX": str(BUILD / "windows/wine"), "WINEDEBUG": "-all", "WINEDLLOVERRIDES": "mscoree,mshtml,winemenubuilder.exe="}


def wine(program, *words, status=0):
    """Runs a program to its end: its standard output."""
    done = subprocess.run(["wine", program, *words], env=environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          timeout=PATIENCE, check=False)
    out, err = (text.decode(errors="replace").replace("\r\n", "\n") for text in (done.stdout, done.stderr))
    assert done.returncode == status, f"{program}: status {done.returncode}: {out}{err}"
    return out
