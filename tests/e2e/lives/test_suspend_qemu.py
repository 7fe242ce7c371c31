# SPDX-License-Identifier: Apache-2.0
"""What `barcuda suspend --qmp` does with a monitor that says no, nothing, or nonsense: it says so, the programs run on, and a guest that was stopped
is told to go on. (Guests and QEMU itself: tests/vm/test_suspend.py.)"""
import json
import socket
import threading

import pytest

from e2e.flat import BARCUDA, run

pytestmark = pytest.mark.usefixtures("own_shm")
GREETING = {"QMP": {}}


class Monitor(threading.Thread):
    """Answers each command as it is told, else with nothing; `told`: the commands."""

    def __init__(self, path, greeting, answers):
        super().__init__(daemon=True)
        self.greeting, self.answers, self.told = greeting, answers, []
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(path))
        self.listener.listen()
        self.start()

    def run(self):
        lines = self.listener.accept()[0].makefile("rw")
        try:
            lines.write(json.dumps(self.greeting) + "\n")
            lines.flush()
            for line in lines:
                self.told.append(json.loads(line)["execute"])
                answer = self.answers.get(self.told[-1], {"return": {}})
                lines.write(json.dumps({"event": "NOISE"}) + "\n" + json.dumps(answer) + "\n")
                lines.flush()
        except OSError:
            pass  # the command has ended


def memory_of(region, **more):
    return {"query-memdev": {"return": [{"id": "m", "share": True}]}, "qom-get": {"return": str(region.path)}, **more}


ANSWERS = {
    "no monitor": (["SSH-2.0"], {}, "it is not the QMP monitor"),
    "no answer": (GREETING, {"qmp_capabilities": []}, "gives an answer that is none"),
    "an answer that is no list": (GREETING, {"query-memdev": {"return": 5}}, "has no memory object"),
    "members of other kinds": (GREETING, {"query-memdev": {"return": [{"id": 5, "share": True}, 7, [], {"share": "x"}]}}, "is shared"),
    "other memory that is shared": (GREETING, {"query-memdev": {"return": [{"id": "ram", "share": True}]}}, "memory object ram is shared"),
    "no state": (GREETING, {"query-status": {"return": {"status": 7}}}, "neither running nor paused, but ''"),
    "another state": (GREETING, {"query-status": {"return": {"status": "postmigrate"}}}, "neither running nor paused, but 'postmigrate'"),
}
RUNS = {"query-status": {"return": {"status": "running"}}}
REFUSALS = {
    "a capability": ({"migrate-set-capabilities": {"error": {"desc": "unknown"}}}, "unknown"),
    "a descriptor": ({"getfd": {"error": {"desc": "none"}}}, "none"),
    "a device": ({"migrate": {"error": {"desc": "'peer mode' in device 'ivshmem'"}}}, "its device needs master=on"),
    "the guest": ({"query-migrate": {"return": {"status": "failed"}}}, "QEMU has not saved the guest"),
}


def suspend(region, scratch):
    return run(BARCUDA, "suspend", "--region", region.path, scratch / "set", "--qmp", scratch / "qmp")


@pytest.mark.parametrize("what", ANSWERS)
def test_a_monitor_that_says_nonsense_changes_nothing(region, scratch, what):
    greeting, answers, why = ANSWERS[what]
    bridge = region.serve("--no-vm", "--device-memory", "blocks")
    monitor = Monitor(scratch / "qmp", greeting, (memory_of(region) if "state" in what else {}) | answers)
    ran = suspend(region, scratch)
    assert ran.status == 1 and why in ran.err, f"{ran} {monitor.told}"
    assert "stop" not in monitor.told and not list(scratch.glob("set*")) and bridge.runs()


@pytest.mark.parametrize("what", REFUSALS)
def test_where_qemu_refuses_the_guest_goes_on(region, scratch, what):
    answers, why = REFUSALS[what]
    bridge = region.serve("--no-vm", "--device-memory", "blocks")
    monitor = Monitor(scratch / "qmp", GREETING, memory_of(region, **RUNS, **answers))
    ran = suspend(region, scratch)
    assert ran.status == 1 and why in ran.err, f"{ran} {monitor.told}"
    assert "stop" in monitor.told and monitor.told[-1] == "cont" and "quit" not in monitor.told
    assert not list(scratch.glob("set*")) and bridge.runs()
