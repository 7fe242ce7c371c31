# SPDX-License-Identifier: Apache-2.0
"""under_wine.py: Windows programs on this machine. What is missing skips the test, which says how to install it."""
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from e2e.flat import Region

TOP = Path(__file__).resolve().parents[2]
BUILD = TOP / os.environ.get("BUILD", "build")
DLLS = BUILD / "lib/barcuda-windows"
PATIENCE = 120


def need_built(*files):
    if missing := [str(file.relative_to(BUILD.parent)) for file in files if not file.exists()]:
        pytest.skip(f"not built: {' '.join(missing)}: make windows")


def environment(variables=None):
    """Wine's own folder is made at its first program, and kept with the build."""
    if not shutil.which("wine"):
        pytest.skip("wine is not installed: make windows")
    # No Mono, no browser, no desktop's menus: none of our programs has use for them.
    return os.environ | {"WINEPREFIX": str(BUILD / "windows/wine"), "WINEDEBUG": "-all", "WINEDLLOVERRIDES": "mscoree,mshtml,winemenubuilder.exe=;nvcuda,nvml,cudart64_12,cudart64_13=n",
                         **(variables or {})}


def at(path):
    """The path as Wine's programs know it."""
    return "Z:" + str(path).replace("/", "\\")


def client_of(region):
    """The variables of a client of this region."""
    return environment({"BARCUDA_REGION": at(region.path), "WINEPATH": at(DLLS)})


def serving():
    """A fixture: a region that a bridge serves, whose clients are built."""
    need_built(DLLS / "nvcuda.dll")
    region = Region()
    region.serve()
    yield region
    region.close()


def wine(program, *words, status=0, env=None, errors=False, patience=PATIENCE):
    """Runs a program to its end: its standard output, and its errors behind it. What it said until it failed, or hung, is told."""
    try:
        done = subprocess.run(["wine", program, *words], env=env or environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=patience, check=False)
    except subprocess.TimeoutExpired as late:
        pytest.fail(f"{program}: has not ended after {patience} seconds, and said so far: {as_text(late.stdout)}{as_text(late.stderr)}")
    out, err = as_text(done.stdout), as_text(done.stderr)
    assert done.returncode == status, f"{program}: status {done.returncode}: {out[-8000:]}{err}"
    return out + err if errors else out


def as_text(said):
    return (said or b"").decode(errors="replace").replace("\r\n", "\n")
