# SPDX-License-Identifier: Apache-2.0
"""What Windows guests have, installed: `make install-windows` places all of it. guest-windows/install.ps1: PowerShell can read it, and it installs
all of that. It has been run nowhere: that takes Windows."""
import re
import subprocess

from e2e.flat import TOP, need, succeed
from windows.under_wine import DLLS, need_built

SCRIPT = TOP / "guest-windows/install.ps1"


def test_it_installs_all_dlls():
    need_built(DLLS / "nvcuda.dll", DLLS / "barcuda.exe")
    named = " ".join(re.findall(r"^\$(?:Dlls|Command) = (.*)", SCRIPT.read_text(), re.M))
    assert sorted(re.findall("'([^']+)'", named)) == sorted(file.name for file in DLLS.iterdir())


def test_make_installs_and_uninstalls_all_of_it(tmp_path):
    need_built(DLLS / "nvcuda.dll", DLLS / "barcuda.exe")
    to = "PREFIX=/usr", f"DESTDIR={tmp_path}", f"B={DLLS.parents[1]}"
    succeed("make", "-s", "install-windows", *to)
    there = tmp_path / "usr/lib/barcuda/barcuda-windows"
    assert sorted(file.name for file in there.iterdir()) == sorted([*(file.name for file in DLLS.iterdir()), "install.ps1"])
    succeed("make", "-s", "uninstall", *to)
    assert not there.exists()


def test_powershell_can_read_it():
    need("pwsh")
    read = f"$e = $null; [void][Management.Automation.Language.Parser]::ParseFile('{SCRIPT}', [ref]$null, [ref]$e); $e; exit $e.Count"
    done = subprocess.run(["pwsh", "-NoProfile", "-Command", read], stdout=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 0, done.stdout
