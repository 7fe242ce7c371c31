# SPDX-License-Identifier: Apache-2.0
"""tests/frameworks: what its checks tell of a client that could be carried to another host; and how programs are compared."""
import json
import sys

import pytest

from e2e.flat import BARCUDA, BUILD, DEVICE, TOP, needs_soft, run

# What asks a bridge pauses its clients for a moment.
CHECKS = """
import ctypes
from checks import check, main

runtime = ctypes.CDLL("libcudart.so.13")


@check
def allocates():
    return runtime.cudaMalloc(ctypes.byref(ctypes.c_void_p()), 1 << 20)


@check
def shares():
    memory = ctypes.c_void_p()
    runtime.cudaMalloc(ctypes.byref(memory), 1 << 20)
    return runtime.cudaIpcGetMemHandle((ctypes.c_char * 64)(), memory)


main()
"""


@pytest.mark.parametrize("variables, told", [({"CARRIED": BARCUDA}, ["", "by cuIpcGetMemHandle"]), ({}, [None, None])], ids=["asked", "not asked"])
def test_a_check_tells_whether_its_client_could_be_carried(scratch, variables, told):
    (scratch / "its_checks.py").write_text(CHECKS)
    ran = run(BARCUDA, "run", "--device", DEVICE, "--device-memory", "blocks", "--", sys.executable, scratch / "its_checks.py",
              env={**variables, "PYTHONPATH": TOP / "tests/frameworks", "PYTHONDONTWRITEBYTECODE": 1})
    checks = [json.loads(line) for line in ran.out.splitlines() if line.startswith("{")]
    assert [check["values"] for check in checks] == [[0.0], [0.0]], ran
    for check, expected in zip(checks, told):
        if expected is None:
            assert "carried" not in check, check
        else:
            assert check["carried"] and all(bool(expected) == bool(answer) and expected in answer for answer in check["carried"]), check


@needs_soft("a GPU's programs run natively, too")
def test_a_full_region_makes_no_program_another_one(scratch):
    def third(file, line):  # natively twice, and then through Barcuda; the first two runs of both programs are side by side
        return f"{scratch}\techo >> {file}; until [ -s one ] && [ -s two ]; do sleep 0.1; done; [ $(wc -l < {file}) -lt 3 ] || echo {line}; echo 17\n"
    (scratch / "list").write_text(f"warned\t{third('one', 'barcuda: the region is full')}other\t{third('two', 18)}")
    ran = run(TOP / "tests/frameworks/programs", "--build", BUILD, "--device", "soft", "--region-size", "256M", "--jobs", 2, scratch / "list")
    assert ran.status == 1 and "warned: equal; the region was full" in ran.out and "other: prints 2 lines in place of 1" in ran.out, ran
