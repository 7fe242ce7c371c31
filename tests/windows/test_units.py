# SPDX-License-Identifier: Apache-2.0
"""Unit tests that ask nothing of the system, built by mingw-w64, under Wine: the queue, rows, and parts of the client."""
import re

from windows.under_wine import BUILD, need_built, wine

UNITS = BUILD / "windows/units.exe"


def test_unit_tests_pass():
    need_built(UNITS)
    said = wine(UNITS, "--gtest_brief=1")
    assert int(re.search(r"PASSED  \] (\d+) tests", said)[1]) > 100, said
    assert "FAILED" not in said
