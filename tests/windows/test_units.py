# SPDX-License-Identifier: Apache-2.0
"""Unit tests that ask nothing of the system, built by mingw-w64, under Wine: the queue, rows, and parts of the client; and those of the runtime, as
clients of a Linux bridge."""
import re

import pytest

from e2e.flat import BUILD, needs_soft
from windows.under_wine import client_of, need_built, serving, wine

WINDOWS = BUILD / "windows"
# Two threads give each other a million chains, and each yields to the other: minutes where other work has the processors.
PATIENCE = 500

region = pytest.fixture(serving)


def passes(program, least, **how):
    need_built(program)
    said = wine(program, errors=True, patience=PATIENCE, **how)
    passed = re.search(r"PASSED  \] (\d+) tests", said)
    assert passed and int(passed[1]) > least and "FAILED" not in said, f"{program.name} said:\n{said[-8000:]}"


def test_unit_tests_pass():
    passes(WINDOWS / "units.exe", 180)


@needs_soft("Windows programs are tried with the software GPU")
def test_unit_tests_of_the_runtime_pass(region):
    passes(WINDOWS / "runtime_units.exe", 60, env=client_of(region))
