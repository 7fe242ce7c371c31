# SPDX-License-Identifier: Apache-2.0
"""Programs for Windows load though they import functions of Direct3D and WGL, and hear from them that no device of CUDA drives a display."""
import os
import re
from pathlib import Path

import pytest

from e2e.flat import BUILD, needs_soft
from windows.under_wine import at, client_of, DLLS, environment, need_built, serving, wine

INCLUDE = Path(os.environ.get("CUDA_HOME", "/usr/local/cuda")) / "include"
PROGRAMS = BUILD / "windows/direct3d"
CUPTI = {"nvcuda": "CUPTI_DRIVER_TRACE_CBID_", "cudart64_13": "CUPTI_RUNTIME_TRACE_CBID_", "cudart64_12": "CUPTI_RUNTIME_TRACE_CBID_"}

region = pytest.fixture(serving)


def imported(prefix):
    """As CUPTI names them on each system: a function of the runtime with the version from which on it is meant."""
    header = INCLUDE / f"cupti_{prefix.split('_')[1].lower()}_cbid.h"
    names = re.findall(prefix + r"(cu(?:da)?(?:Graphics)?(?:D3D|WGL)\w*)", header.read_text())
    return sorted({name if "DRIVER" in prefix else re.sub(r"_v\d+$", "", name) for name in names})


@pytest.mark.parametrize("dll", CUPTI)
def test_each_name_of_direct3d_and_wgl_is_exported(dll):
    need_built(DLLS / f"{dll}.dll", PROGRAMS / "names.exe")
    names, env = imported(CUPTI[dll]), environment({"WINEPATH": at(DLLS)})
    assert len(names) > 40
    assert wine(PROGRAMS / "names.exe", f"{dll}.dll", *names, "cuD3D12GetDevice", env=env).split() == ["cuD3D12GetDevice"]


@needs_soft("Windows programs are tried with the software GPU")
def test_no_device_drives_a_display(region):
    assert wine(PROGRAMS / "adapters.exe", env=client_of(region)).endswith("passed\n")
