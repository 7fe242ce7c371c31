# SPDX-License-Identifier: Apache-2.0
"""conftest.py: Wine's server and services start with its first program and end with its last one, which takes seconds: one program stays for all
tests of a file."""
import shutil
import subprocess

import pytest

from windows.under_wine import BUILD, environment

WAITS = BUILD / "windows/devices/holds.exe"


@pytest.fixture(autouse=True, scope="session")
def wine_stays():
    if not shutil.which("wine") or not WAITS.exists():
        yield
        return
    with subprocess.Popen(["wine", WAITS], env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as program:
        program.stdout.readline()  # it runs: two that start Wine together may wait for each other
        yield
        program.stdin.close()
