# SPDX-License-Identifier: Apache-2.0
"""Unit tests that ask nothing of the system, built by mingw-w64, under Wine: the queue, rows, and parts of the client; and those of the runtime, as
clients of a Linux bridge."""
import re

import pytest

from e2e.flat import BUILD, needs_soft
from windows.under_wine import client_of, need_built, serving, wine

WINDOWS = BUILD / "windows"

region = pytest.fixture(serving)


def passes(program, least, **how):
    need_built(program)
    said = wine(program, "--gtest_brief=1", **how)
    assert int(re.search(r"PASSED  \] (\d+) tests", said)[1]) > least, said
    assert "FAILED" not in said


def test_unit_tests_pass():
    passes(WINDOWS / "units.exe", 180)


@needs_soft("Windows programs are tried with the software GPU")
def test_unit_tests_of_the_runtime_pass(region):
    passes(WINDOWS / "runtime_units.exe", 60, env=client_of(region))
