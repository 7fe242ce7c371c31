# SPDX-License-Identifier: Apache-2.0
"""Signals and cancellation of a program that has managed memory do what they do without it; and a program without CUDA has its masks."""
import signal
import sys

import pytest

from e2e.flat import BUILD

SIGNALS = BUILD / "e2e/managed_signals"


# What the program says, and its status.
CASES = {
    "nested": ("entered", -signal.SIGSEGV), "nested_nodefer": ("three", 0), "left": ("left three times", 0),
    "blocked": ("touched", -signal.SIGSEGV), "unblocked": ("handled", 0), "full_masks": ("touched", 0), "contexts": ("touched", 0),
    "left_in_touch": ("left", 0), "cancelled": ("cancelled", 0), "set_actions": ("set", 0),
}


@pytest.mark.parametrize("case", CASES)
def test_a_program_has_its_signals(region, case):
    region.serve()
    ran = region.client(SIGNALS, case)
    assert (ran.out.rstrip("\n"), ran.status) == CASES[case], ran


def test_a_signal_without_a_handler_is_not_held_up_by_a_touch_that_waits(region):
    region.serve()
    program = region.start("ended", SIGNALS, "ended")
    program.send_signal(signal.SIGINT)
    assert program.wait() == -signal.SIGINT, program


# No code for a GPU, no CUDA.
WAITS_FOR_A_SIGNAL = """
import os, signal
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGSEGV})
os.kill(os.getpid(), signal.SIGSEGV)
assert signal.sigwait({signal.SIGSEGV}) == signal.SIGSEGV
assert signal.pthread_sigmask(signal.SIG_BLOCK, set()) == {signal.SIGSEGV}
"""


def test_a_program_without_cuda_has_its_masks(region):
    region.serve()
    ran = region.client(sys.executable, "-c", WAITS_FOR_A_SIGNAL)
    assert ran.status == 0, ran
