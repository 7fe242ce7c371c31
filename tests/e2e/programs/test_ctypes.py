# SPDX-License-Identifier: Apache-2.0
"""Python programs that find the driver by ctypes (tests/bench/applications): kernels double numbers that go to the GPU and come back, also those
of several threads beside one that loads code."""
import re
import sys

from e2e.flat import RUN, TOP, run

NUMBERS = 1 << 18


def test_numbers_that_went_to_the_gpu_come_back_doubled():
    ran = run(*RUN, sys.executable, "-B", TOP / "tests/bench/applications/ctypes_applications.py")
    assert ran.status == 0, ran
    total = float(sum(2 * (i % 1000) for i in range(NUMBERS)))
    assert re.search(r'"app_serving_p99".*"result": \[4096.0, 8192.0, 12288.0, 16384.0\]', ran.said), f"each thread has its own numbers: {ran}"
    assert re.search(rf'"app_copy_kernel_copy".*"result": \[{re.escape(str(total))}, 2.0, 286.0\]', ran.said), f"not {total}: {ran}"
