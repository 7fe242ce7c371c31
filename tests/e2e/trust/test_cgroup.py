# SPDX-License-Identifier: Apache-2.0
"""Each worker has a control group (cgroup v2): one that takes more of the host's memory than its client may have is killed alone, and its client
told; the group goes with the worker. In the group that the bridge was started in, as systemd delegates one to a unit. Where this machine
has none to give away, the first test runs the others in a guest's kernel."""
import os
import re
import shutil
import signal
import sys
import tempfile
from pathlib import Path

import pytest

from e2e.flat import BARCUDA, BUILD, IS_ROOT, TOP, Program, need, needs_soft, other_user, run, until
from e2e.taken import Installation, TakenOver

pytestmark = needs_soft("the driver is the test's own")
IN_GUEST = "BARCUDA_TEST_INSTALLATION"  # in a guest: the installation, which was built outside
SMALL = "--client-worker-memory", "128M", "--client-region-memory", "64M", "--client-device-memory", "64M"
MIB = 1 << 20
KILLED = "the worker process was killed because it took more of the host's memory than its client may have (worker-memory) in cuDeviceGetExecAffinitySupport"


def write(file, text):
    file.write_text(text)


def control_groups():
    """Where this machine's control groups with memory are; None where it has none to give away."""
    if IN_GUEST in os.environ:
        groups = Path("/sys/fs/cgroup")
        if not (groups / "cgroup.controllers").exists():
            run("mount", "-t", "cgroup2", "none", groups)
        return groups
    mounts = re.findall(r"^\S+ \S+ \S+ \S+ (\S+) .* - cgroup2 ", Path("/proc/self/mountinfo").read_text(), re.M)
    try:
        if not IS_ROOT or "memory" not in (Path(mounts[0]) / "cgroup.controllers").read_text():
            return None
        Path(tempfile.mkdtemp(prefix="barcuda-test-", dir=mounts[0])).rmdir()
        return Path(mounts[0])
    except (IndexError, OSError):
        return None


@pytest.fixture(scope="module")
def installation(shared):
    built = os.environ.get(IN_GUEST)
    return Installation(Path(built) if built else shared, "tests/e2e/trust/mischief.cc", attempts=36)


@pytest.fixture(scope="module")
def groups():
    found = control_groups()
    if not found:
        pytest.skip("no control groups to be given away here; the first test runs this one in a guest")
    if "memory" not in (found / "cgroup.subtree_control").read_text():
        write(found / "cgroup.subtree_control", "+memory +pids +cpu")
    return found


def group_of(pid):
    return re.search("^0::(.*)$", Path(f"/proc/{pid}/cgroup").read_text(), re.M)[1]


def groups_in(folder):
    return [each for each in folder.rglob("*") if each.is_dir()]


class Unit:
    """A control group that a plain user has, as a unit of systemd's has its own, and the bridge in it."""

    def __init__(self, groups, region, installation):
        self.groups, self.region, self.installation = groups, region, installation
        self.folder = Path(tempfile.mkdtemp(prefix="barcuda-test-", dir=groups))
        for file in self.folder, *self.folder.iterdir():
            os.chown(file, 65534, 65534)
        self.taken = TakenOver(region, installation)
        region.folder.chmod(0o777)  # where this user makes its region

    @property
    def inside(self):
        return {"preexec_fn": lambda: write(self.folder / "cgroup.procs", str(os.getpid()))}

    def serve(self, *options):
        self.taken.serve("soft", *options, size="256M", under=other_user(), **self.inside)
        return self.region.bridge

    def stop(self):
        self.region.stop()

    def workers(self):
        return list(self.folder.glob("barcuda-worker-*"))

    def has_workers(self, count):
        until(lambda: len(self.workers()) == count, lambda: f"{count} groups of workers, not {self.workers()}")

    def client(self, *command):
        return self.region.client(*other_user(*command))

    def swell(self):
        """A client whose worker takes 600 MiB."""
        return self.client(self.installation.asks, self.installation.number["swell"])

    def start(self):
        """A client in the background, and its worker's group, which has its limit."""
        client = self.region.start("honest", *other_user(BUILD / "e2e/endless"))
        its = Path(f"{self.groups}{group_of(self.region.bridge.workers()[-1])}")
        until(lambda: (its / "memory.max").read_text() != "max\n", "the group has its client's limit")
        return client, its

    def doctor(self):
        return run(BARCUDA, "doctor", **self.inside).said

    def is_empty(self):
        return not groups_in(self.folder)


@pytest.fixture
def unit(groups, region, installation):
    unit = Unit(groups, region, installation)
    yield unit
    for program in region.programs:
        program.kill()
    if region.bridge and region.bridge.runs():
        region.bridge.kill(signal.SIGTERM)
    until(lambda: "populated 0" in (unit.folder / "cgroup.events").read_text(), "all in the group have ended")
    for folder in [*unit.workers(), *unit.folder.glob("barcuda-bridge"), unit.folder]:
        folder.rmdir()


def test_in_a_guests_kernel_the_others_pass():
    if control_groups():
        pytest.skip("this machine has control groups, so that the other tests run here")
    need("qemu-system-x86_64", "g++")
    folder = Path(tempfile.mkdtemp(prefix="cgroup-test-", dir=BUILD))  # where a guest finds it, too
    try:
        Installation(folder, "tests/e2e/trust/mischief.cc", attempts=36)
        folder.chmod(0o755)
        ran = run("tests/vm/run", "--device", "soft", "--region-size", "1G", "--memory", "2G", "--user", "0", "--no-library", "--timeout", "600", "--",
                  "env", f"BUILD={os.environ.get('BUILD', 'build')}", f"{IN_GUEST}={folder}", sys.executable, "-m", "pytest", "-rs", "-c", TOP / "tests/pytest.ini",
                  __file__, patience=900)
        print(ran.said)  # pytest shows that whole, beside a failure
        assert ran.status == 0 and re.search(r"^5 passed, 2 skipped|^4 passed, 3 skipped", ran.out, re.M)
    finally:
        shutil.rmtree(folder)


def test_a_worker_has_a_group_with_limits_that_ends_with_it_and_is_not_another_users(unit):
    bridge = unit.serve(*SMALL)
    assert not re.search("cage lacks ('[a-z]+', )*'cgroup'", bridge.log), bridge.log
    assert group_of(bridge.pid) == f"/{unit.folder.relative_to(unit.groups)}/barcuda-bridge"
    unit.has_workers(1)
    client, its = unit.start()
    assert its.parent == unit.folder and its.name.startswith(f"barcuda-worker-{bridge.proper}-"), its
    assert (its / "pids.max").read_text() == "16384\n" and (its / "memory.oom.group").read_text() == "1\n"
    assert 256 * MIB < int((its / "memory.max").read_text()) < 600 * MIB
    unit.has_workers(2)
    for attempt in f"echo 1 > '{its}/cgroup.procs'", f"echo max > '{its}/memory.max'", f"mkdir '{unit.folder}/mine'", f"rmdir '{its}'":
        assert run("setpriv", "--reuid=65533", "--regid=65533", "--clear-groups", "sh", "-c", attempt).status != 0, f"another user may: {attempt}"
    client.kill()
    unit.has_workers(1)
    unit.stop()
    assert unit.is_empty() and not (unit.folder / "cgroup.subtree_control").read_text().strip(), groups_in(unit.folder)


def test_a_worker_that_is_too_large_is_killed_alone_and_an_operator_lifts_the_limit(unit):
    unit.serve(*SMALL)
    client, its = unit.start()
    ran = unit.swell()
    assert ran.out.startswith("ended"), f"the worker had 600 MiB: {ran}"
    assert KILLED in ran.err and KILLED in unit.region.log, ran
    unit.has_workers(2)
    assert client.runs(), f"another client has ended: {client}"
    ran = unit.client(BUILD / "programs/vector_add")
    assert "PASSED" in ran.out, f"the next client: {ran}"
    ran = run(BARCUDA, "limit", "--region", unit.region.path, "client-worker-memory=none")
    assert ran.status == 0 and (its / "memory.max").read_text() == "max\n", f"no limit any more: {ran}"


def test_without_the_measure_there_are_no_groups_and_a_large_worker_lives(unit):
    bridge = unit.serve(*SMALL, "--no-cage", "cgroup")
    assert unit.is_empty() and group_of(bridge.pid) == f"/{unit.folder.relative_to(unit.groups)}"
    ran = unit.swell()
    assert ran.out == "0\n", ran


def test_groups_of_a_bridge_that_was_killed_are_removed_by_the_next(unit):
    bridge = unit.serve()
    unit.has_workers(1)
    bridge.kill()
    until(lambda: "populated 0" in (unit.folder / "cgroup.events").read_text(), "its workers have ended")
    assert unit.workers(), "no group was left behind, so this shows nothing"
    write(unit.folder / "cgroup.subtree_control", "-memory -pids -cpu")  # as systemd starts a unit again
    unit.serve("--warm", "0")
    assert not unit.workers()


def test_doctor_says_whether_there_are_groups_and_leaves_none(unit):
    if Path("/sys/module/uio_barcuda").exists():
        pytest.skip("doctor looks at a guest as a guest")
    said = unit.doctor()
    assert re.search("^  on +on +cgroup ", said, re.M) and unit.is_empty(), said
    other = Program(unit.region.folder, "other", ["sleep", "1000"], **unit.inside)
    unit.region.programs.append(other)
    said = unit.doctor()
    assert re.search("^  off +off +cgroup ", said, re.M) and unit.is_empty(), said
    assert re.search("off: cgroup: not to be had here: .*there are other processes in it", said), said


def test_at_the_root_of_all_groups_processes_may_be_beside_groups(groups, region):
    if group_of(os.getpid()) != "/":
        pytest.skip("the test runs in a group itself")
    bridge = region.serve("--no-vm", size="256M")
    assert group_of(bridge.pid) == "/" and len(list(groups.glob(f"barcuda-worker-{bridge.proper}-*"))) == 1
    region.stop()
    assert not list(groups.glob(f"barcuda-worker-{bridge.proper}-*")), "left behind at the root"
