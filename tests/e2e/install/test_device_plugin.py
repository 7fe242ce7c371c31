# SPDX-License-Identifier: Apache-2.0
"""barcuda-device-plugin against a kubelet's side of the published protocol (kubelet.cc), with bridges that run. The plugin registers, lists,
answers what a container needs, with which alone a program then runs; it follows bridges that are killed and started again, and a kubelet that
restarts."""
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from e2e.flat import BARCUDA, BUILD, LIBRARIES, Program, Region, may_be_other_user, run, succeed, until, written

PLUGIN, KUBELET = BUILD / "bin/barcuda-device-plugin", BUILD / "e2e/kubelet"
VECTOR_ADD = BUILD / "programs/vector_add"
ONE, TWO = f"one{os.getpid()}", f"two{os.getpid()}"  # bridges of other tests run at the same time
pytestmark = pytest.mark.skipif(not all(os.access(file, os.X_OK) for file in (PLUGIN, KUBELET)), reason=f"{PLUGIN} or {KUBELET} is missing: make kubernetes")


class Kubelet(Program):
    """kubelet.cc. `devices`: the plugin's last list."""

    def __init__(self, node, name):
        super().__init__(node.folder, name, [KUBELET, node.kubelets], stdin=subprocess.PIPE)

    @property
    def devices(self):
        lists = re.findall("^devices(.*)\n", self.out, re.M)
        return dict(share.split("=") for share in lists[-1].split()) if lists else None

    def ask(self, *order):
        """The lines that the plugin answers an order with."""
        before = len(self.out)
        self.send(" ".join(map(str, order)))
        until(lambda: re.search("^(allocated|refused .*|preferred .*)\n", self.out[before:], re.M), lambda: f"{order} is answered: {self}")
        return [line for line in self.out[before:].splitlines() if not line.startswith("devices")]


class Node:
    """A node of Kubernetes: a folder of the kubelet's, a bridge, the kubelet and the plugin."""

    def __init__(self, region):
        self.region, self.folder = region, region.folder
        self.kubelets, self.cdi = self.folder / "kubelet", self.folder / "cdi"
        self.kubelets.mkdir()
        self.cdi.mkdir()
        self.plugin = self.kubelet = None
        region.serve("--no-vm", "--name", ONE)

    def start(self, name, *command):
        program = Program(self.folder, name, command)
        self.region.programs.append(program)
        return program

    def start_plugin(self, *options):
        self.plugin = self.start("plugin", PLUGIN, "--kubelet", self.kubelets, "--bridge", ONE, "--bridge", TWO, *options)
        return self.plugin

    def start_kubelet(self, name="first"):
        self.kubelet = Kubelet(self, name)
        self.region.programs.append(self.kubelet)
        until((self.kubelets / "kubelet.sock").exists, lambda: f"it listens: {self.kubelet}")
        return self.kubelet

    def lists(self, healthy, unhealthy=()):
        """The kubelet has been told of these shares, in this order."""
        wanted = {**{share: "Unhealthy" for share in unhealthy}, **{share: "Healthy" for share in healthy}}
        until(lambda: self.kubelet.devices == wanted and list(self.kubelet.devices) == sorted(wanted), lambda: f"{wanted} in {self.kubelet}")

    def asks(self, *order):
        return self.kubelet.ask(*order)


def shares(*names):
    return [f"{name}-{number}" for name in names for number in range(3)]


@pytest.fixture(scope="module")
def namespaces():
    if run("unshare", "--map-root-user", "--mount", "true").status:
        pytest.skip("no namespace of mounts for what stands for a container")


@pytest.fixture
def node(region):
    """A node with a bridge."""
    return Node(region)


def serve(node):
    node.start_kubelet()
    node.start_plugin("--shares", "3", "--cdi", node.cdi)
    node.lists(shares(ONE))
    return node


@pytest.fixture
def served(node):
    """A node whose kubelet knows the shares of the bridge."""
    return serve(node)


def contained(answer, *program):
    """The program as in a container: with what the plugin answered and nothing else, in a namespace of mounts of its own."""
    said = [line.split() for line in answer]
    script = ["mount -t tmpfs tmpfs /run"]
    for place, to in ((line[1], line[2]) for line in said if line[0] == "mount"):
        folder, quoted = (to if os.path.isdir(place) else os.path.dirname(to)), shlex.quote(to)
        script += [f"mkdir -p {shlex.quote(folder)}", f"[ -d {quoted} ] || touch {quoted}", f"mount --rbind {shlex.quote(place)} {quoted}"]
    return run("unshare", "--map-root-user", "--mount", "sh", "-ec", "\n".join([*script, 'exec env -i "$@"']), "-",
               *(line[1] for line in said if line[0] == "variable"), *program)


def test_the_plugin_waits_for_a_kubelet_and_registers_with_it(node):
    node.start_plugin("--shares", "3").wait_for("no kubelet.*waiting for it")
    node.start_kubelet().wait_for("^registered barcuda.dev/gpu at barcuda.sock$")
    node.lists(shares(ONE))
    node.kubelet.wait_for("^it prefers some$")


def test_a_program_runs_with_what_the_plugin_answers_and_not_with_less(namespaces, served):
    answer = served.asks("allocate", f"{ONE}-1")
    for line in (f"mount {served.region.path} /run/barcuda/region rw", f"mount {LIBRARIES} {LIBRARIES} ro",
                 "variable BARCUDA_REGION=/run/barcuda/region", f"cdi barcuda.dev/gpu={ONE}"):
        assert line in answer, answer
    ran = contained(answer, VECTOR_ADD)
    assert re.search("^PASSED", ran.out, re.M), ran
    served.region.wait_for_log("channel 0: client admitted")
    ran = contained([line for line in answer if not line.startswith("variable BARCUDA_REGION")], VECTOR_ADD)
    assert ran.status != 0, f"a program without one of its variables has a GPU: {ran}"


def test_the_specification_for_container_runtimes_is_that_of_barcuda_cdi(served):
    assert (served.cdi / "barcuda.json").read_text() == succeed(BARCUDA, "cdi", ONE, "--region", served.region.path)


def test_the_plugin_ends_when_it_is_told_to_and_leaves_no_socket(served):
    served.plugin.process.terminate()
    assert served.plugin.wait() == 0, served.plugin
    served.kubelet.wait_for("^the plugin has gone$")
    assert not (served.kubelets / "barcuda.sock").exists()


def test_a_vm_of_kubevirts_gets_the_region_of_a_bridge_that_waits_for_a_vm(node):
    node.region.serve("--name", ONE)
    node.start_kubelet()
    node.start_plugin("--vms")
    node.kubelet.wait_for("^registered barcuda.dev/vm at barcuda-vm.sock$")
    node.lists([f"{ONE}-0"])
    assert node.asks("allocate", f"{ONE}-0") == [f"mount {node.region.path} /dev/shm/barcuda rw", "allocated"]


# ---- two bridges ---------------------------------------------------------------------------------------------------------------------------
THIEF = r"""
import glob, os, socket, sys
region, name, door = sys.argv[1:]
def talk(path):
    to = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    to.connect(path)
    to.send(b"\1" + bytes(11))  # ListRequest
    return to.recv(1 << 20)
st = os.stat(region)
said = talk(glob.glob(f"/dev/shm/barcuda-limits-{st.st_dev}-{st.st_ino}-*")[0])
instead = lambda old, new: said.replace(old + b"\0" * max(0, len(new) - len(old)), new + b"\0" * max(0, len(old) - len(new)), 1)
said = instead(region.encode(), b"/")
said = said[:260] + name.encode().ljust(64, b"\0") + said[324:]  # ListReply's name
os.setgid(65534), os.setuid(65534)
listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
listener.bind(door), listener.listen(8)
print("listens", flush=True)
while True:
    visitor = listener.accept()[0]
    visitor.recv(4096), visitor.send(said), visitor.close()
"""


@pytest.fixture(scope="module")
def pair():
    """A node with two bridges. Before the second one starts, another user listens where bridges do and uses its name, if the test may be another
    user; its region would be all files of the machine. `second`: the region, `answered`: the other user's answer to `barcuda ps`."""
    first, second, door = Region(), Region(), Path(f"/dev/shm/barcuda-limits-1-1-{TWO}")
    try:
        node = serve(Node(first))
        node.second, node.answered = second, None
        if may_be_other_user():
            node.start("thief", sys.executable, written(node.folder / "thief.py", THIEF), first.path, TWO, door).wait_for("listens")
            node.answered = succeed(BARCUDA, "ps")
        second.serve("--no-vm", "--name", TWO, size="256M")
        node.lists(shares(ONE, TWO))
        yield node
    finally:
        second.close()
        first.close()
        door.unlink(missing_ok=True)


def test_another_users_bridge_is_not_asked_and_the_bridge_of_that_name_keeps_it(pair):
    if not may_be_other_user():
        pytest.skip("needs root and setpriv, for another user's bridge")
    assert re.search(f"^{TWO} ", pair.answered, re.M), f"the other user answers no command, so this test shows nothing: {pair.answered}"
    answer = pair.asks("allocate", f"{TWO}-0")
    assert f"mount {pair.second.path} /run/barcuda/region rw" in answer, answer


def test_a_container_gets_shares_of_one_bridge(pair):
    answer = pair.asks("allocate", f"{ONE}-0", f"{TWO}-0")
    assert answer[0].startswith("refused a container gets shares of one bridge"), answer
    for share in f"{ONE}-3", "three-0":
        answer = pair.asks("allocate", share)
        assert answer[0].startswith(f"refused {share}: there is no such share of a bridge"), answer
    assert pair.asks("prefer", 2, f"{ONE}-0", f"{TWO}-0", f"{TWO}-2") == [f"preferred {TWO}-0 {TWO}-2"]
    assert [device["name"] for device in json.loads((pair.cdi / "barcuda.json").read_text())["devices"]] == [ONE, TWO]


def test_the_shares_of_a_bridge_that_is_killed_are_unhealthy_until_it_is_back(pair):
    pair.region.bridge.kill()
    pair.lists(shares(TWO), unhealthy=shares(ONE))
    answer = pair.asks("allocate", f"{ONE}-0")
    assert answer[0].startswith(f"refused {ONE}: its bridge does not answer; start it on the node"), answer
    pair.region.serve("--no-vm", "--name", ONE)
    pair.lists(shares(ONE, TWO))


def test_the_plugin_registers_with_a_kubelet_that_restarts(pair):
    """A kubelet empties its folder when it starts."""
    pair.kubelet.kill()
    pair.start_kubelet("restarted").wait_for("^registered barcuda.dev/gpu at barcuda.sock$")
    pair.lists(shares(ONE, TWO))
    answer = pair.asks("allocate", f"{ONE}-0")
    assert f"mount {pair.region.path} /run/barcuda/region rw" in answer, answer
