# SPDX-License-Identifier: Apache-2.0
"""A kernel's illegal address is an error of its program, sticky as on hardware, and of no other program."""
from e2e.flat import BUILD


def test_a_fault_is_an_error_of_its_program_alone(region):
    region.serve()
    other = region.start("other", BUILD / "e2e/endless")
    ran = region.client(BUILD / "e2e/fault")
    assert ran.status == 0, ran
    assert other.runs(), f"the other client ended too: {other}"
