# SPDX-License-Identifier: Apache-2.0
"""A worker that an attacker has taken over is in a cage: what it tries (mischief.cc, from inside the driver) is stopped by the measure that
is there for it, and succeeds without that measure. The log says what was tried, and so is the client told."""
import errno
import os
import pwd
import re
import signal
from pathlib import Path

import pytest

from e2e.flat import BARCUDA, BUILD, IS_ROOT, Region, children, needs_soft, run, until
from e2e.taken import Installation, TakenOver

pytestmark = needs_soft("the driver is the test's own")
NEEDED = "syscalls", "privileges", "capabilities", "dumpable", "core", "oom"
REFUSALS = (errno.EPERM, errno.ENOENT, errno.ESRCH, errno.EBADF, errno.EAGAIN, errno.ENOMEM, errno.EACCES, errno.EINVAL)
NO_CAPABILITIES = r"^Cap...:\s+0+$"
IN_CAGE = [r"NoNewPrivs:\s+1", r"Seccomp:\s+2", r"Max core file size\s+1\s+1\s+bytes\s*", "OomScore: 500", "Folder: (/|/tmp|/mnt|/run|hidden)"]
# What ends the worker with either driver, and the call that the log names.
ENDS_ANY = {"signal": "kill", "thread_of_another": "tgkill", "trace": "ptrace", "read_another": "process_vm_readv", "exec": "execve",
            "unshare": "unshare", "setuid": "setuid", "handler": "rt_sigaction"}
ENDS_SOFT = {"open": "openat", "create": "openat", "look": "newfstatat", "inet": "socket", "unix": "socket", "fork": "clone", "executable": "mmap",
             "make_executable": "mprotect", **ENDS_ANY}


@pytest.fixture(scope="module")
def installation(shared):
    return Installation(shared, "tests/e2e/trust/mischief.cc", attempts=36)


class Cage(TakenOver):
    def __init__(self, region, installation):
        super().__init__(region, installation)
        self.files = region.folder / "files"  # mischief.cc makes files there, and knows the region by its place beside it
        self.files.mkdir()

    def serve(self, kind, *options):
        with open(self.installation.asks_source, encoding="utf-8") as secret:
            super().serve(kind, *options, stdin=secret, env={"BARCUDA_TEST_FILES": self.files, "ANOTHERS_SECRET": "word"})

    def ends(self, attempt, call):
        """The worker ends for this call, which is said."""
        ran = self.attempt(attempt)
        assert ran.out.startswith("ended"), f"{attempt}: {ran}"
        denied = f"called {call}, which its cage denies"
        assert f"the worker process {denied} (syscalls) in cuDeviceGetExecAffinitySupport" in self.log, f"{attempt}: no line for {call}"
        assert denied in ran.err, f"{attempt}: the client was not told: {ran}"

    def answer(self, attempt):
        ran = self.attempt(attempt)
        return int(ran.out) if ran.out.strip().isdigit() else ran.out

    def refuses(self, *attempts):
        for attempt in attempts:
            assert (got := self.answer(attempt)) in REFUSALS, f"{attempt} was not refused but answered {got}"

    def lets(self, *attempts):
        for attempt in attempts:
            assert (got := self.answer(attempt)) == 0, f"{attempt} was answered {got} without the measure, so this shows nothing"

    def worker_has(self, *lines):
        """What the kernel says of a worker, and that it has these lines; but its folder is root's to see, where the worker is not dumpable."""
        client = self.region.start("honest", BUILD / "e2e/endless")
        worker = Path(f"/proc/{self.region.bridge.workers()[-1]}")
        for measure, name in ("network", "net"), ("ipc", "ipc"), ("mounts", "mnt"):  # the worker's own, if its cage has them, or the host's
            seen = link(worker / "ns" / name)
            if seen == "hidden" and not IS_ROOT:
                continue
            assert (seen == link(f"/proc/self/ns/{name}")) == self.lacks(measure), f"the namespace '{measure}' of a worker: {seen}"
        status = "\n".join([(worker / "status").read_text(), (worker / "limits").read_text(),
                            "OomScore: " + (worker / "oom_score_adj").read_text().strip(), "Folder: " + link(worker / "cwd")])
        client.kill(signal.SIGTERM)
        for line in lines:
            assert re.search(f"^{line}$", status, re.M), f"not {line!r} but: {status}"
        return status


def link(path):
    try:
        return os.readlink(path)
    except OSError:
        return "hidden"


@pytest.fixture
def cage(region, installation):
    return Cage(region, installation)


@pytest.fixture(scope="module", autouse=True)
def whole(installation):
    """The tests need a kernel, and a build, that have these measures."""
    region = Region()
    try:
        one = Cage(region, installation)
        one.serve("soft")
        if missing := [measure for measure in NEEDED if one.lacks(measure)]:
            pytest.skip(f"this kernel, or this build, lacks a part of the cage: {', '.join(missing)}")
    finally:
        region.close()


def has_landlock(cage):
    return not cage.lacks("files")


# ---- the software GPU's cage --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("attempt", ENDS_SOFT)
def test_each_attempt_ends_the_worker_of_the_software_gpu_that_makes_it(cage, attempt):
    cage.serve("soft")
    cage.ends(attempt, ENDS_SOFT[attempt])


def test_a_worker_has_neither_its_bridges_environment_nor_its_input(cage):
    cage.serve("soft")
    cage.refuses("environment", "input")


def test_a_worker_has_no_privileges_and_no_capabilities(cage):
    cage.serve("soft")
    status = cage.worker_has(*IN_CAGE)
    assert len(re.findall(NO_CAPABILITIES, status, re.M)) == 5, status


# ---- of the region a worker has its client's part, beside another client ---------------------------------------------------------------
MAPS = "map_whole", "map_others", "pass_on", "grow", "grow_from_nothing"
ASKS_MAPPER = "mapper_whole", "mapper_others", "mapper_otherwise", "mapper_passes"


def beside_a_neighbour(cage):
    cage.region.start("neighbour", BUILD / "e2e/endless")


def region_is_shut(cage):
    """What holds with either driver."""
    beside_a_neighbour(cage)
    cage.refuses(*MAPS, "cut_region")
    cage.ends("turn_over", "remap_file_pages")
    assert "asked for memory that is not" not in cage.log, "the mapper has not been asked yet"
    cage.refuses(*ASKS_MAPPER)
    assert re.search("its worker asked for memory that is not its client.s: 0x100000 bytes of the region at 0x0", cage.log), "what was asked for"
    cage.ends("mapper_copies", "dup")


def region_is_open(cage):
    """Without the measure: the same descriptor is every thread's."""
    beside_a_neighbour(cage)
    cage.lets(*MAPS, *ASKS_MAPPER)
    cage.ends("cut_region", "ftruncate")
    cage.ends("copy_region", "dup")
    cage.ends("turn_over", "remap_file_pages")


def test_a_worker_of_the_software_gpu_has_its_clients_part_of_the_region(cage):
    cage.serve("soft")
    region_is_shut(cage)
    cage.ends("copy_region", "dup")
    cage.ends("reopen", "openat")
    cage.ends("reopen_mapping", "openat")
    cage.ends("fetch", "pidfd_open")


def test_a_worker_of_nvidias_driver_has_its_clients_part_of_the_region(cage):
    cage.serve("cuda")
    if cage.lacks("extents"):
        pytest.skip("this kernel has no Landlock, so a worker has all of the region")
    region_is_shut(cage)
    cage.refuses("copy_region", "reopen", "reopen_mapping")
    cage.ends("fetch", "pidfd_open")


@pytest.mark.parametrize("kind", ["soft", "cuda"])
def test_without_the_measure_extents_a_worker_has_the_whole_region(cage, kind):
    cage.serve(kind, "--no-cage=extents")
    region_is_open(cage)


# ---- without measures -----------------------------------------------------------------------------------------------------------------
def test_without_the_filter_other_measures_stop_most_of_it(cage):
    cage.serve("soft", "--no-cage=syscalls")
    assert re.search("the workers' cage lacks 'syscalls' .*switched off", cage.log)
    cage.refuses("trace", "read_another", "setuid", "inet")
    if IS_ROOT:
        assert re.search(r"^Seccomp:\s+2", bridge_status(cage), re.M), "the bridge has no filter"
    cage.lets("unix", "executable", "make_executable", "handler")
    if has_landlock(cage):
        cage.refuses("open", "create")


def bridge_status(cage):
    return Path(f"/proc/{cage.region.bridge.proper}/status").read_text()


def test_without_a_cage_each_attempt_succeeds(cage):
    cage.serve("soft", "--no-cage=all")
    cage.lets("open", "create", "look", "inet", "unix", "signal", "thread_of_another", "executable", "make_executable", "handler", "fork",
              "environment", "input")
    if IS_ROOT:
        cage.lets("trace", "read_another", "unshare", "setuid")
    assert cage.answer("exec") != 0
    cage.region.wait_for_log("the worker process ended with status 7")
    assert re.search(r"^Seccomp:\s+0", bridge_status(cage), re.M), "the bridge has a filter"
    cage.worker_has(r"NoNewPrivs:\s+0", r"Seccomp:\s+0", f"Folder: {re.escape(os.getcwd())}",
                    "OomScore: " + Path("/proc/self/oom_score_adj").read_text().strip())


# ---- users --------------------------------------------------------------------------------------------------------------------------
needs_root = pytest.mark.skipif(not IS_ROOT, reason="needs root")


@needs_root
def test_a_worker_is_the_user_that_its_bridge_was_told(cage):
    nobody = pwd.getpwnam("nobody")
    cage.serve("soft", "--worker-user", "nobody")
    cage.worker_has(rf"Uid:(\s+{nobody.pw_uid}){{4}}", rf"Gid:(\s+{nobody.pw_gid}){{4}}", r"NoNewPrivs:\s+1", r"Seccomp:\s+2")
    ran = cage.region.client(BUILD / "programs/vector_add")
    assert "PASSED" in ran.out, f"an honest client of another user's worker: {ran}"


@needs_root
def test_each_bridge_takes_a_user_for_its_workers_that_no_other_has(cage, regions):
    """And may go on as a user itself."""
    nobody = pwd.getpwnam("nobody")
    cage.serve("soft")
    if cage.lacks("user"):
        pytest.skip("bridges here may not change their workers' user")
    status = cage.worker_has(r"Uid:(\s+6[1-5][0-9]{3}){4}", r"Gid:(\s+6[1-5][0-9]{3}){4}", r"Groups:\s+6[1-5][0-9]{3}\s*")
    taken = uid_of(status)
    other = regions()
    os.chown(other.folder, nobody.pw_uid, -1)
    second = other.serve("--user", "nobody", program=cage.installation.bridge, device="soft")
    if re.search("cage lacks ('[a-z]+', )*'user'", second.log):
        pytest.skip("a bridge of another user may not change its workers' user here")
    status = Path(f"/proc/{second.proper}/status").read_text()
    assert re.search(rf"^Uid:(\s+{nobody.pw_uid}){{4}}", status, re.M) and re.search(r"^CapPrm:\s+0+$", status, re.M), status
    worker = until(lambda: children(second.pid, "--worker"), "a worker waits for a client")[0]
    user = uid_of(Path(f"/proc/{worker}/status").read_text())
    assert user > 61183 and user != taken, f"its worker is user {user}, the other bridge's {taken}"


def uid_of(status):
    return int(re.search(r"^Uid:\s*(\d+)", status, re.M)[1])


# ---- the cage of NVIDIA's driver ------------------------------------------------------------------------------------------------------
def test_nvidias_driver_opens_files_and_sockets_and_does_nothing_to_other_processes(cage):
    cage.serve("cuda", "--doorbell", cage.files / "bell")
    cage.lets("executable")
    cage.refuses("open", "create", "look", "environment", "input", "unix", "inet", "fork")
    remedy = r"the driver called socket \(0x1, 0x[0-9a-f]*\), which its cage does not know, and was refused: .* start its bridge with " \
             r"--allow-call socket, and report it"
    assert re.search(remedy, cage.log), "no line with the remedy"
    cage.refuses("ask_doorbell")
    for attempt, call in ENDS_ANY.items():
        cage.ends(attempt, call)
    cage.worker_has(*IN_CAGE)
    ran = cage.region.client(BUILD / "programs/vector_add")
    assert "PASSED" in ran.out, f"an honest client: {ran}"


def test_of_mounts_and_files_either_measure_stops_a_worker_of_nvidias_driver(cage):
    cage.serve("cuda", "--no-cage=mounts")
    if has_landlock(cage):
        cage.refuses("open", "create")
    cage.serve("cuda")
    if not cage.lacks("mounts"):
        cage.serve("cuda", "--no-cage=files")
        cage.refuses("open", "create", "look")


def test_without_these_measures_a_worker_opens_its_region_again(cage):
    cage.serve("cuda", "--no-cage=extents,files,mounts,user,capabilities")
    cage.lets("reopen")
    if IS_ROOT:
        cage.lets("reopen_mapping")


def test_without_a_cage_each_attempt_of_nvidias_driver_succeeds(cage):
    cage.serve("cuda", "--no-cage=all")
    cage.lets("open", "create", "inet", "environment", "handler")
    cage.worker_has(r"NoNewPrivs:\s+0", r"Seccomp:\s+0")


def test_a_measure_alone_does_what_it_is_for(cage):
    cage.serve("cuda", "--no-cage=all", "--cage=capabilities")
    cage.lets("inet")
    if IS_ROOT:
        cage.refuses("setuid")


# ---- what an operator sees and says ---------------------------------------------------------------------------------------------------
def test_doctor_says_which_measures_there_are():
    said = run(BARCUDA, "doctor").out
    for measure in "core", "oom", "syscalls", "extents", "bridge":
        assert re.search(f"^  on +on +{measure} ", said, re.M), said
    assert re.search("^  on +on +user " if IS_ROOT else "^  off +off +user ", said, re.M), said


def test_a_call_that_the_operator_allows_is_done(cage):
    cage.serve("cuda", "--allow-call=socket,fork")
    cage.lets("unix")


def test_what_a_driver_calls_that_the_software_gpu_does_not_is_recorded_once_and_done(cage):
    cage.serve("cuda", "--record-calls", "--no-cage=bridge,mounts,files")
    cage.lets("open", "open", "inet")
    until(lambda: re.search(": recorded socket 0x2$", cage.log, re.M), lambda: f"the socket is recorded: {cage.log}", 10)
    assert len(re.findall(": recorded openat /etc/passwd$", cage.log, re.M)) == 2, "two workers that each open it once"


@pytest.mark.parametrize("option, words", [("--allow-call=sockett", "'sockett' is not a system call"),
                                           ("--no-cage=syscals", "the cage has no 'syscals'; its measures: environment, ")],
                         ids=["call", "measure"])
def test_calls_and_measures_that_there_are_not_are_refused(installation, scratch, option, words):
    ran = run(installation.bridge, "--region", scratch / "other", option)
    assert ran.status != 0 and words in ran.err, ran
