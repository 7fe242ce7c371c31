# SPDX-License-Identifier: Apache-2.0
"""`barcuda run --windows` runs a program under Wine with a bridge of its own, passes its status through, and says what is missing."""
import os
import shutil

from e2e.flat import BARCUDA, BUILD, LIBRARIES, needs_soft, run
from windows.under_wine import DLLS, environment, need_built

pytestmark = needs_soft("Windows programs are tried with the software GPU")
RUN = [BARCUDA, "run", "--device", "soft", "--region-size", "1G", "--windows", "--"]
REFUSED = 125


def own_wine():
    """Wine's folder and no more: where DLLs are and which of them are ours is the command's to say."""
    return {name: environment()[name] for name in ("WINEPREFIX", "WINEDEBUG")}


def test_a_program_runs_with_our_dlls():
    program = BUILD / "windows/runtime/everything.exe"
    need_built(DLLS / "nvcuda.dll", program)
    ran = run(*RUN, program, env=own_wine())
    assert ran.status == 0 and ran.out.endswith("passed\n"), ran


def test_the_status_is_the_programs():
    program = BUILD / "windows/lives/status.exe"
    need_built(DLLS / "nvcuda.dll", program)
    ran = run(*RUN, program, "7", env=own_wine())
    assert ran.status == 7, ran


def test_wine_that_is_missing_is_named(tmp_path):
    ran = run(*RUN, "program.exe", env={"PATH": tmp_path})
    assert ran.status == REFUSED and "wine is missing: apt install" in ran.err, ran


def test_dlls_that_are_missing_are_named_with_how_they_are_made(tmp_path):
    for folder in "bin", "lib":
        (tmp_path / folder).mkdir()
    wine = tmp_path / "bin/wine"
    wine.write_text("#!/bin/sh\n")
    wine.chmod(0o755)
    barcuda = shutil.copy(BARCUDA, tmp_path / "bin")
    shutil.copy(BARCUDA.with_name("barcuda-bridge"), tmp_path / "bin")
    shutil.copy(LIBRARIES / "libbarcuda.so", tmp_path / "lib")
    ran = run(barcuda, *RUN[1:], "program.exe", env={"PATH": f"{wine.parent}:{os.environ['PATH']}"})
    assert ran.status == REFUSED and "nvcuda.dll is missing: run make windows" in ran.err, ran
