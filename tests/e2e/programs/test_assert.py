# SPDX-License-Identifier: Apache-2.0
"""What a failed assert says reaches the program's standard error, once, and no other reader; all else that the driver says, and what no program
asks for, is the host's."""
import re

from e2e.flat import BUILD, needs_soft


def test_what_a_failed_assert_says_reaches_its_program_once(region):
    region.serve()
    ran = region.client(BUILD / "e2e/asserts", "look")
    assert ran.status == 0 and ran.out == "cudaErrorAssert\n", ran
    assert len(re.findall(r"asserts.cu:.*block: \[0,0,0\], thread: \[40,0,0\] Assertion .*as asked.* failed", ran.err)) == 1, ran
    assert "Assertion" not in region.log, "the bridge has said it too"


@needs_soft("a GPU's driver says nothing until it is asked")
def test_what_no_program_asks_for_is_the_hosts(region):
    region.serve()
    region.start("forgetful", BUILD / "e2e/asserts")
    region.wait_for_log("Assertion .*as asked")


@needs_soft("a GPU's driver says nothing until it is asked")
def test_what_a_driver_says_of_a_fault_is_the_hosts(region):
    region.serve()
    ran = region.client(BUILD / "e2e/fault")
    assert ran.status == 0 and "CUDA_ERROR_ILLEGAL_ADDRESS: kernel" not in ran.said, ran
    region.wait_for_log("CUDA_ERROR_ILLEGAL_ADDRESS: kernel")
