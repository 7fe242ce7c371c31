# SPDX-License-Identifier: Apache-2.0
"""The bridge serves all its clients in one loop, and no client and no worker makes the others wait: not a worker that sends requests without end
and reads no answer, not one that is long in ending, not one that has died while it waited for a client. The bridge collects all of them."""
import os
import signal
import subprocess
from pathlib import Path

import pytest

from e2e.flat import BUILD, Program, children, gxx, has_ended, until, written

AN_ERROR = 3  # the status of programs whose CUDA call has failed
NOT_ALLOWED = 77
DEBUGGER = r"""
#include <cstdio>
#include <cstdlib>
#include <sys/ptrace.h>
#include <unistd.h>
int main(int, char** pid) {
    if (ptrace(PTRACE_SEIZE, std::atoi(pid[1]), 0, 0) != 0) return std::perror("ptrace"), 77;
    std::puts("running"), std::fflush(stdout);
    for (char c; read(0, &c, 1) > 0;) {}
}
"""
# The worker's end of its link, in the hands of a process that sends without end.
FLOOD = r"""
#include <cstdio>
#include <cstdlib>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "host-bridge/between/link.h"
int main(int, char** pid) {
    const long process = syscall(SYS_pidfd_open, std::atoi(pid[1]), 0);
    const int link = static_cast<int>(syscall(SYS_pidfd_getfd, process, barcuda::link_fd, 0));
    if (link < 0) return std::perror("pidfd_getfd"), 77;
    const barcuda::Message<barcuda::request::Withdraw> nothing{};
    while (send(link, &nothing, sizeof nothing, MSG_NOSIGNAL) > 0) {}
}
"""


def built(region, name, text):
    include = Path(os.environ.get("CUDA_HOME", "/usr/local/cuda")) / "include"
    return gxx(region.folder / name, "-std=c++20", "-D_GNU_SOURCE", "-I.", "-isystem", include, written(region.folder / f"{name}.cc", text))


def serves_the_next(region):
    ran = region.client(BUILD / "programs/vector_add")
    assert "PASSED" in ran.out, f"the next client: {ran}"


def collects(*workers):
    for worker in workers:
        until(lambda worker=worker: not os.path.exists(f"/proc/{worker}"), f"the bridge collects worker {worker}")


def test_a_worker_that_died_while_it_waited_for_a_client_is_given_to_none(region):
    bridge = region.serve()
    warm = until(lambda: children(bridge.pid, "--worker"), "there is a warm worker")[0]
    os.kill(warm, signal.SIGKILL)
    until(lambda: has_ended(warm), "the warm worker dies")
    serves_the_next(region)
    collects(warm, *bridge.workers())
    assert warm not in bridge.workers()


def test_a_worker_that_is_long_in_ending_makes_no_other_client_wait(region):
    """A debugger is the first to see its end, and takes time."""
    bridge = region.serve()
    program = built(region, "debugger", DEBUGGER)
    client = region.start("client", BUILD / "e2e/endless")
    [worker] = bridge.workers()
    debugger = Program(region.folder, "debugger", [program, worker], stdin=subprocess.PIPE)
    region.programs.append(debugger)
    until(lambda: "running" in debugger.out or not debugger.runs(), "the debugger has the worker")
    if not debugger.runs() and debugger.wait() == NOT_ALLOWED:
        pytest.skip("no process may be traced here")
    client.kill()
    until(lambda: has_ended(worker), "the worker ends")
    serves_the_next(region)
    assert os.path.exists(f"/proc/{worker}") and "channel 0: reclaimed" not in region.log, "the worker ended in time, so this shows nothing"
    debugger.end_input()
    assert debugger.wait() == 0, debugger
    region.wait_for_log("channel 0: reclaimed")
    collects(*bridge.workers())


def test_a_worker_that_sends_without_end_and_reads_no_answer_is_ended_and_makes_no_other_client_wait(region):
    bridge = region.serve()
    program = built(region, "flood", FLOOD)
    client = region.start("client", BUILD / "e2e/endless")
    [worker] = bridge.workers()
    os.kill(worker, signal.SIGSTOP)
    flood = Program(region.folder, "flood", [program, worker])
    region.programs.append(flood)
    if flood.wait() == NOT_ALLOWED:
        pytest.skip("no descriptor may be taken here")
    assert flood.wait() == 0, flood
    serves_the_next(region)
    assert client.wait() == AN_ERROR and "does not read the answers" in client.log, client
    collects(*bridge.workers())
