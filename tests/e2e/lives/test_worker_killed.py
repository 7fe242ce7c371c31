# SPDX-License-Identifier: Apache-2.0
"""A worker that dies leaves its client with an error and a line that says why and in which command, never a hang; other clients do not notice."""
import os
import re
import signal
from pathlib import Path

from e2e.flat import BUILD, LIBRARIES, gxx, until, written

AN_ERROR = 3  # the status of programs whose CUDA call has failed
SHARES = r"""
#include <cstdio>
#include <unistd.h>
extern "C" int cudaMalloc(void**, unsigned long);
extern "C" int cudaIpcGetMemHandle(void*, void*);
int main() {
    char handle[64];
    for (void* p; cudaMalloc(&p, 1 << 20) == 0 && cudaIpcGetMemHandle(handle, p) == 0; usleep(100000))
        std::puts("running"), std::fflush(stdout);
    return 3;
}
"""


def test_the_client_has_an_error_and_a_reason_and_others_do_not_notice(region):
    bridge = region.serve()
    one, two = region.start("one", BUILD / "e2e/endless"), region.start("two", BUILD / "e2e/endless")
    os.kill(bridge.workers()[0], signal.SIGKILL)
    assert one.wait() == AN_ERROR and "killed by signal 9" in one.log, one
    assert two.runs(), two
    two.kill()
    assert "PASSED" in region.client(BUILD / "programs/vector_add").out


def test_the_command_is_named_in_which_a_worker_waited_for_its_bridge(region):
    bridge = region.serve()
    program = gxx(region.folder / "shares", written(region.folder / "shares.cc", SHARES), LIBRARIES / "libbarcuda.so")
    client = region.start("shares", program)
    worker = bridge.workers()[-1]
    bridge.send_signal(signal.SIGSTOP)
    until(lambda: re.match("(45|47) ", Path(f"/proc/{worker}/syscall").read_text()), "the worker waits for an answer (recvfrom, recvmsg)")
    os.kill(worker, signal.SIGKILL)
    bridge.send_signal(signal.SIGCONT)
    assert client.wait() == AN_ERROR and "killed by signal 9 (Killed) in cuIpcGetMemHandle" in client.log, client
