# SPDX-License-Identifier: Apache-2.0
"""guest-windows/install.ps1: PowerShell can read it, and it installs all DLLs that there are. It has been run nowhere: that takes Windows."""
import re
import subprocess

from e2e.flat import TOP, need
from windows.under_wine import DLLS, need_built

SCRIPT = TOP / "guest-windows/install.ps1"


def test_it_installs_all_dlls():
    need_built(DLLS / "nvcuda.dll")
    named = re.search(r"^\$Dlls = (.*)", SCRIPT.read_text(), re.M)[1]
    assert sorted(re.findall("'([^']+)'", named)) == sorted(file.name for file in DLLS.glob("*.dll"))


def test_powershell_can_read_it():
    need("pwsh")
    read = f"$e = $null; [void][Management.Automation.Language.Parser]::ParseFile('{SCRIPT}', [ref]$null, [ref]$e); $e; exit $e.Count"
    done = subprocess.run(["pwsh", "-NoProfile", "-Command", read], stdout=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 0, done.stdout
