# SPDX-License-Identifier: Apache-2.0
"""BARCUDA_LOG=debug says on standard error which calls of a program failed, and what was asked of the driver in vain; each by its name and with
its result. Without it there is no such line."""
import re

import pytest

from e2e.flat import BUILD, RUN, run


def lines_of(program, **variables):
    """What the library says."""
    ran = run(*RUN, BUILD / "programs" / program, env=variables)
    assert ran.status == 0, ran
    return [line for line in ran.err.splitlines() if line.startswith("barcuda: ")]


@pytest.mark.parametrize("program", ["launch_errors", "launch_attributes", "export_tables"])
def test_without_the_log_nothing_is_said(program):
    assert not lines_of(program)


@pytest.mark.parametrize("program, said", [
    ("launch_errors", r"^barcuda: try_launch: CUDA_ERROR_INVALID_VALUE \(1\)$"),
    ("launch_errors", r"^barcuda: cudaLaunchKernel: cudaErrorInvalidValue \(1\)$"),
    ("launch_attributes", r"^barcuda: cudaLaunchKernelExC: cudaErrorInvalidValue \(1\)$")],
    ids=["the answer of the host's driver", "what became of it for the program", "what the library refuses"])
def test_a_call_that_fails_is_named_with_its_result(program, said):
    lines = lines_of(program, BARCUDA_LOG="debug")
    assert any(re.search(said, line) for line in lines), lines


@pytest.mark.parametrize("said", ["slot 4 of .* 1734DC26-800D-4745-8726-C0F1E7DD8BCA was called",
                                  "asked for the driver.s table DA9151D3-3AE6-CC41-A5C0-4F26D533E328"], ids=["a slot", "a table"])
def test_what_was_asked_of_the_driver_in_vain_is_said_once(said):
    lines = lines_of("export_tables", BARCUDA_LOG="debug")
    assert len([line for line in lines if re.search(said, line)]) == 1, lines
