# SPDX-License-Identifier: Apache-2.0
"""A program that asks for nearly all of the region, while the bridge has rested and a worker waits for the next client with memory in reserve, gets
an answer: memory where there is enough without that reserve, else none at once. The bridge does not go on to end that worker and to start
another one."""
import re
import subprocess

import pytest

from e2e.flat import BUILD, until

SERVED, OUT_OF_MEMORY = 0, 2


@pytest.mark.parametrize("mib, answers", [(960, [OUT_OF_MEMORY]), (896, [SERVED, OUT_OF_MEMORY]), (1 << 20, [OUT_OF_MEMORY])],
                         ids=["more than there is without the reserve", "as much, where /dev/shm has as much", "more than the region"])
def test_a_large_request_is_answered_without_a_chase_of_workers(region, mib, answers):
    """Of a region of 1G the program and the waiting worker have 64 MiB each."""
    bridge = region.serve("--no-vm", level="debug")

    def started():
        return bridge.log.count("a worker has started")
    program = region.start("program", BUILD / "e2e/bounds", "large", mib, stdin=subprocess.PIPE)
    until(lambda: started() >= 2, "a worker for the program, and one for the next")
    assert started() == 2
    program.end_input()
    program.wait()
    answer = re.search(r"^answer (\d+)$", program.out, re.M)
    assert answer and int(answer[1]) in answers, program
    assert started() <= 3, f"{started() - 2} workers were started for one request"
