# SPDX-License-Identifier: Apache-2.0
"""A bridge that is stopped, or killed without a word, leaves its clients with an error; a new one takes the region over."""
import os
import signal

import pytest

from e2e.flat import BRIDGE, BUILD, LIBRARIES, gxx, run, written

AN_ERROR = 3  # the status of programs whose CUDA call has failed
# BRIDGE DRIVER: a process that becomes the bridge of a worker, and ends before the worker has begun; and the parent of both.
ORPHAN = r"""
#include <csignal>
#include <cstdio>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include "host-bridge/between/link.h"
using namespace barcuda;
int main(int, char** words) {  // BRIDGE DRIVER
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    int link[2], told[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, link) || pipe(told)) return 2;
    if (fork() == 0) {  // the bridge
        const pid_t bridge = getpid(), worker = fork();
        if (worker == 0) {
            raise(SIGSTOP);
            dup2(memfd_create("region", 0), 30), dup2(link[1], 31), dup2(STDERR_FILENO, 32), dup2(told[1], 33);
            dup2(memfd_create("sheet", 0), 34);
            const int from[] = {30, 31, 32, 33, 34, 32}, to[] = {region_fd, link_fd, STDERR_FILENO, errors_fd, sheet_fd, into_errors_fd};
            for (int i = 0; i < 6; ++i) dup2(from[i], to[i]);
            close_range(into_errors_fd + 1, ~0u, 0);
            execl(words[1], "barcuda-bridge", "--worker", words[2], nullptr);
        }
        Preparation prepared{};
        prepared.bridge = bridge, prepared.devices = 1;
        if (write(told[1], &worker, sizeof worker) < 0 || send(link[0], &prepared, sizeof prepared, 0) < 0) _exit(2);
        waitpid(worker, nullptr, WUNTRACED);
        _exit(0);
    }
    pid_t worker = 0;
    if (read(told[0], &worker, sizeof worker) < 0) return 2;
    while (wait(nullptr) == -1) {}  // the bridge
    kill(worker, SIGCONT);
    int status = 0;
    alarm(60);
    waitpid(worker, &status, 0);
    return status;
}
"""


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL], ids=["stopped", "killed"])
def test_clients_have_an_error_and_a_reason_and_a_new_bridge_takes_over(region, how):
    region.serve()
    victim = region.start("victim", BUILD / "e2e/endless")
    region.bridge.kill(how)
    assert victim.wait() == AN_ERROR and "the GPU is lost" in victim.log, victim
    region.serve()
    ran = region.client(BUILD / "programs/vector_add")
    assert "PASSED" in ran.out, ran


def test_a_worker_whose_bridge_is_killed_before_it_has_begun_does_not_live_on(scratch):
    """Though another process may still hold the bridge's end of the link: the next bridge waits for that worker."""
    include = os.environ.get("CUDA_HOME", "/usr/local/cuda") + "/include"
    program = gxx(scratch / "orphan", "-std=c++20", "-D_GNU_SOURCE", "-I.", "-isystem", include, written(scratch / "orphan.cc", ORPHAN))
    ran = run(program, BRIDGE, LIBRARIES / "barcuda-soft/libcuda.so.1")
    assert ran.status == 0, ran
