# SPDX-License-Identifier: Apache-2.0
"""What tests of guests share with pytest."""
import os
from pathlib import Path

import pytest

from e2e.flat import IS_ROOT, need, run, succeed, until


@pytest.fixture
def virsh():
    """Libvirt's own program; on a machine without systemd its daemons run while the test does."""
    need("qemu-system-x86_64", "virsh", "libvirtd", "virtlogd")
    if not IS_ROOT:
        pytest.skip("only root starts domains of qemu:///system")

    def tell(*words):
        return run("virsh", "--quiet", "--connect", "qemu:///system", *words)
    started = []
    if tell("version").status != 0:
        for daemon in ("virtlogd", "libvirtd"):
            if run("pgrep", "-x", daemon).status != 0:
                succeed(daemon, "-d")
                started.insert(0, daemon)
        until(lambda: tell("version").status == 0, "libvirt answers")
    yield lambda *words: succeed("virsh", "--quiet", "--connect", "qemu:///system", *words)
    for daemon in started:
        os.kill(int(Path(f"/run/{daemon}.pid").read_text()), 15)
