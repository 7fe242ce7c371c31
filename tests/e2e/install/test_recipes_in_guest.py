# SPDX-License-Identifier: Apache-2.0
"""docs/recipes.md, walked through: after `barcuda guest enable`, with no variable set by hand, by ssh: a program of a session without a terminal, and
of a server that the session leaves behind (as VS Code does); a notebook of Jupyter; a program that nvcc compiles there. In an /etc, a /dev/shm, a
/run and a /usr/local/bin of the tests' own. (tests/vm/debian does the same in a VM, with Docker.)"""
import json
import os
import re
import shutil
import socket
from pathlib import Path

import pytest

from e2e.flat import BARCUDA, BUILD, TOP, Program, Region, need, run, succeed, text_of, until, written

OWN_MOUNTS = "an /etc, a /dev/shm, a /run and a /usr/local/bin", """
mount -t tmpfs -o mode=1777 tmpfs /dev/shm && cp -a /etc /dev/shm/etc && mount --bind /dev/shm/etc /etc && ldconfig &&
mount -t tmpfs tmpfs /usr/local/bin && mount -t tmpfs tmpfs /run && mkdir /run/sshd"""
pytestmark = pytest.mark.usefixtures("own_mounts")
PAGE = (TOP / "docs/recipes.md").read_text()
VECTOR_ADD = BUILD / "programs/vector_add"
BY_CTYPES = """
import ctypes
cuda, count = ctypes.CDLL("libcuda.so.1"), ctypes.c_int()
memory, number = ctypes.c_uint64(), ctypes.c_uint32()
context = ctypes.c_void_p()
for status in (cuda.cuInit(0), cuda.cuDeviceGetCount(ctypes.byref(count)), cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0),
               cuda.cuCtxSetCurrent(context), cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(4)), cuda.cuMemsetD32_v2(memory, 4711, ctypes.c_size_t(1)),
               cuda.cuMemcpyDtoH_v2(ctypes.byref(number), memory, ctypes.c_size_t(4))):
    assert status == 0, status
print(count.value, "GPU, and it has", number.value)
"""
SOURCE = """
#include <cstdio>
__global__ void adds(int* number) { atomicAdd(number, 1); }
int main() {
    int *there, here = 0;
    cudaMalloc(&there, sizeof here);
    cudaMemset(there, 0, sizeof here);
    adds<<<10, 10>>>(there);
    cudaMemcpy(&here, there, sizeof here, cudaMemcpyDeviceToHost);
    std::printf("%d\\n", here);
}
"""


def shown(prompt, first):
    """The command behind the prompt that begins with this word, as docs/recipes.md has it, without its comment."""
    command, = re.findall(rf"^{prompt}\$ ({re.escape(first)}(?: .*?)?)(?: +#.*)?$", PAGE, re.M)
    return command


class Guest:
    """This machine as a guest: its region is named in /etc/environment, in place of a VM's device, which programs find by themselves."""

    def __init__(self, folder):
        self.folder, self.home = folder, folder / "home"
        self.home.mkdir()
        self.region = Region()
        self.region.serve(size="512M")
        with open("/etc/environment", "a", encoding="utf-8") as file:
            file.write(f"BARCUDA_REGION={self.region.path}\n")
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            port = one.getsockname()[1]
        for key in "host", "user":
            succeed("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / key)
        server = written(folder / "sshd", f"ListenAddress 127.0.0.1:{port}\nHostKey {folder}/host\nAuthorizedKeysFile {folder}/user.pub\nUsePAM yes\n"
                                          f"StrictModes no\nPermitRootLogin prohibit-password\nPidFile none\n")
        self.file = written(folder / "ssh", f"Host work\n  HostName 127.0.0.1\n  Port {port}\n  User root\n  IdentityFile {folder}/user\n  IdentitiesOnly yes\n"
                                            f"  UserKnownHostsFile /dev/null\n  StrictHostKeyChecking no\n  LogLevel ERROR\n  BatchMode yes\n")
        self.server = Program(folder, "sshd", ["/usr/sbin/sshd", "-D", "-e", "-f", server])
        self.server.wait_for("Server listening")

    def ssh(self, command, **how):
        return run("ssh", "-F", self.file, "work", f"cd {self.home} && {command}", env={"LD_PRELOAD": None, "LD_LIBRARY_PATH": None}, **how)

    def close(self):
        self.server.kill()
        self.region.close()
        run(BARCUDA, "guest", "disable")


@pytest.fixture(scope="module")
def guest(own_mounts, shared):
    need("ssh", "ssh-keygen", "/usr/sbin/sshd")
    enabled = run(BARCUDA, "guest", "enable")
    if "ordinary users may change" in enabled.err:
        pytest.skip("the build lies in a folder that others than root may write to, from which nothing is enabled")
    assert enabled.status == 0, enabled
    one = Guest(shared)
    try:
        ran = one.ssh("true")
        if ran.status:
            pytest.skip(f"ssh cannot log in here: {ran.err.strip().splitlines()[-1:]}")
        yield one
    finally:
        one.close()


def test_a_program_of_a_session_without_a_terminal_runs(guest):
    ran = guest.ssh(VECTOR_ADD)
    assert ran.status == 0 and "PASSED" in ran.out, ran


def test_what_a_session_leaves_behind_runs_programs_too(guest):
    """VS Code passes a script to a shell, which starts its server, which starts terminals and programs after the session has ended."""
    server = written(guest.home / "server", f"#!/bin/sh\nwhile [ ! -e go ]; do sleep 0.05; done\n{VECTOR_ADD} > said 2>&1; sh -ic {VECTOR_ADD} > shell 2>&1; touch done\n")
    server.chmod(0o755)
    ran = guest.ssh("sh", input="setsid ./server < /dev/null > /dev/null 2>&1 &\n")
    assert ran.status == 0, ran
    (guest.home / "go").touch()
    until((guest.home / "done").exists, "the server has run its programs")
    assert "PASSED" in text_of(guest.home / "said") and "PASSED" in text_of(guest.home / "shell"), text_of(guest.home / "said") + text_of(guest.home / "shell")


def test_a_notebook_uses_the_gpu(guest):
    need("/usr/bin/jupyter")
    if guest.ssh("/usr/bin/python3 -c 'import nbconvert, ipykernel'").status:
        pytest.skip("jupyter-nbconvert or python3-ipykernel is not installed")
    cells = [BY_CTYPES, "!nvidia-smi -L", f"!{VECTOR_ADD}"]
    written(guest.home / "notebook.ipynb", json.dumps({"cells": [{"cell_type": "code", "source": source, "metadata": {}, "outputs": [], "execution_count": None}
                                                                 for source in cells],
                                                       "metadata": {}, "nbformat": 4, "nbformat_minor": 4}))
    ran = guest.ssh("PATH=/usr/bin:$PATH " + shown("guest", "jupyter nbconvert"))
    assert ran.status == 0, ran
    said = ["".join("".join(output.get("text", "")) for output in cell["outputs"]) for cell in json.loads((guest.home / "notebook.ipynb").read_text())["cells"]]
    assert re.search("^[0-9]+ GPU, and it has 4711$", said[0], re.M) and said[1].startswith("GPU 0: ") and "PASSED" in said[2], said


def test_nvcc_compiles_a_program_that_runs(guest):
    nvcc = shutil.which("nvcc") or f"{os.environ.get('CUDA_HOME', '/usr/local/cuda')}/bin/nvcc"
    if not os.access(nvcc, os.X_OK):
        pytest.skip("nvcc is not installed")
    written(guest.home / "program.cu", SOURCE)
    ran = guest.ssh(f"PATH={Path(nvcc).resolve().parent}:$PATH {shown('guest', 'nvcc')} && {shown('guest', './program')}", patience=300)
    assert ran.status == 0 and ran.out == "100\n", ran
