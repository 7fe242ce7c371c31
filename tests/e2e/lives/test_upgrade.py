# SPDX-License-Identifier: Apache-2.0
"""`barcuda upgrade`: the bridge of another file takes the place of one that serves. Its clients keep their workers and compute what they always
do, new clients get the new file's workers. A file that cannot go on with the clients is refused before anything is done. If the new
bridge does not come to serve, that of the earlier file goes on. Back and forth between two builds: tests/hostile/lives upgrades."""
import json
import os
import random
import re
import shutil

import pytest

from e2e.conftest import OWN_SHM
from e2e.flat import BARCUDA, BRIDGE, BUILD, IS_ROOT, children, gxx, may_be_other_user, needs_soft, other_user, run, succeed, until, written

OWN_MOUNTS = "a /dev/shm", OWN_SHM
UPGRADES = 8
COPIES = BUILD / "e2e/copy_model", "steps=2500"
# A bridge of some build: it says that it could go on with the clients, and then does what its name says. A silent one does not even say that.
ODD_BRIDGE = r"""
#include <csignal>
#include <cstring>
#include <unistd.h>
int main(int count, char** words) {
    for (int i = 1; i < count; ++i)
        if (!std::strcmp(words[i], "--could-follow")) {
            if (DOES == 's') for (;;) pause();
            return 87;
        }
    if (DOES == 'c') raise(SIGSEGV);
    if (DOES == 'h') for (;;) pause();
    if (DOES == 'b') execv(BECOMES, words);
    const char* more[100] = {};  // metrics where none can be
    for (int i = 0; i < count && i < 90; ++i) more[i] = words[i];
    more[count] = "--metrics";
    more[count + 1] = "/";
    if (DOES == 'm') execv(USUAL, const_cast<char**>(more));
    return 5;
}
"""


@pytest.fixture
def installation(scratch):
    """A folder with a bridge of its own, which can be replaced as a package replaces its files."""
    (scratch / "bin").mkdir()
    (scratch / "lib").symlink_to(BUILD / "lib")

    class Installation:
        bridge = scratch / "bin/barcuda-bridge"

        def install(self, file, mode=0o755):
            new = scratch / "bin/new"
            shutil.copyfile(file, new)
            new.chmod(mode)
            new.rename(self.bridge)
    one = Installation()
    one.install(BRIDGE)
    return one


@pytest.fixture(scope="module")
def odd_bridge(shared):
    """A function: the file of a bridge that ends, crashes or hangs."""
    source = written(shared / "odd.cc", ODD_BRIDGE)
    return lambda does: gxx(shared / does, f"-DDOES='{does[0]}'", f'-DBECOMES="{BUILD}/e2e/bridge-link6"', f'-DUSUAL="{BRIDGE}"', source)


def upgrade(bridge_region, *words):
    return run(BARCUDA, "upgrade", "--region", bridge_region.path, *words)


def upgraded(bridge_region, *words):
    before = bridge_region.bridge.proper
    ran = upgrade(bridge_region, *words)
    assert ran.status == 0 and "serves in place of" in ran.out, ran
    assert bridge_region.bridge.proper not in (None, before), ran


def program_of(pid):
    """Which file the process runs, also if it has another name now."""
    st = os.stat(f"/proc/{pid}/exe")
    return st.st_dev, st.st_ino


def file_of(path):
    st = os.stat(path)
    return st.st_dev, st.st_ino


def computes(region):
    ran = region.client(BUILD / "programs/vector_add")
    assert ran.status == 0 and "PASSED" in ran.out, f"{ran}{region.log}"


def test_clients_keep_their_workers_and_new_ones_get_the_new_files(region, installation):
    bridge = region.serve("--warm", "1", program=installation.bridge)
    old, client = file_of(installation.bridge), region.start("client", BUILD / "e2e/endless")
    worker = bridge.workers()[0]
    installation.install(BRIDGE)
    new = file_of(installation.bridge)
    ran = upgrade(region)
    assert ran.status == 0 and re.search(r"serves in place of .*; it goes on with 1 client$", ran.out, re.M), ran
    assert program_of(bridge.proper) == new and program_of(worker) == old and client.runs()
    until(lambda: [program_of(pid) for pid in children(bridge.pid, "--worker") if pid != worker] == [new], "the warm worker is one of the new file's")
    computes(region)
    client.kill()
    until(lambda: worker not in children(bridge.pid, "--worker"), "the old worker ends with its client")
    bridge.stop()


@pytest.mark.parametrize("model", [("e2e/copy_model", "steps=3000"), ("e2e/api_model", "steps=1500", "threads=3")], ids=["copies", "everything"])
def test_a_program_computes_on_while_bridges_replace_each_other(region, model):
    bridge = region.serve("--warm", "0")
    client = region.background("client", BUILD / model[0], *model[1:], f"seed={random.randrange(1 << 30)}")
    bridge.wait_for("client admitted")
    done = 0
    while client.runs() and done < UPGRADES:
        upgraded(region)
        done += 1
    assert client.wait() == 0, f"after {done} upgrades: {client}{bridge.log}"
    assert done, "no bridge was replaced while the program ran"


def test_a_keeper_outlives_many_upgrades(region):
    """Whatever its bridge does at the moment: it answers the command that has ordered its end."""
    bridge = region.serve("--warm", "0")
    for done in range(8 * UPGRADES):
        ran = upgrade(region)
        assert ran.status == 0, f"after {done} upgrades: {ran}{bridge.log}"
    computes(region)
    bridge.stop()


def test_a_bridge_that_was_killed_after_an_upgrade_is_followed_by_one_of_the_new_file(region, installation):
    bridge = region.serve("--warm", "0")
    upgraded(region, "--binary", installation.bridge)
    before = bridge.proper
    os.kill(before, 9)
    until(lambda: bridge.proper not in (None, before), "another bridge goes on")
    until(lambda: program_of(bridge.proper) == file_of(installation.bridge), "it is one of the new file's")
    computes(region)


@pytest.mark.usefixtures("own_shm")  # `barcuda ps` ends with 1 where a bridge of another test hangs
def test_a_paused_client_stays_paused_and_a_limit_stays_set(region):
    bridge = region.serve("--warm", "0")
    client = region.background("client", *COPIES, f"seed={random.randrange(1 << 30)}")
    bridge.wait_for("client admitted")
    named = "--region", region.path
    succeed(BARCUDA, "limit", *named, "--client", client.pid, "device-memory=3G")
    succeed(BARCUDA, "pause", *named)
    upgraded(region)
    shown = json.loads(succeed(BARCUDA, "limit", *named, "--json"))["clients"]
    assert [one["limits"]["device-memory"]["limit"] for one in shown] == [3 << 30]
    assert client.runs() and "away" in succeed(BARCUDA, "ps"), bridge
    succeed(BARCUDA, "resume", *named)
    assert client.wait() == 0, f"{client}{bridge.log}"


# ---- what does not come to serve
@pytest.mark.parametrize("does, why", [("end", "it ended with status 5 before it served"), ("crash", "it was killed by signal 11"),
                                       ("hang", "it did not serve within 3 s")], ids=["ends", "crashes", "hangs"])
def test_the_earlier_files_bridge_goes_on_although_its_file_was_replaced(region, installation, odd_bridge, does, why):
    bridge = region.serve("--warm", "0", program=installation.bridge)
    for _ in range(2):  # the keeper's own file, and one that it was upgraded to
        client = region.background("client", *COPIES, f"seed={random.randrange(1 << 30)}")
        bridge.wait_for("client admitted")
        old = program_of(bridge.proper)
        installation.install(odd_bridge(does))
        ran = upgrade(region, "--within", "3s" if does == "hang" else "60s")
        assert ran.status == 1 and why in ran.err and "The earlier one goes on with its clients" in ran.err, ran
        assert program_of(bridge.proper) == old
        assert client.wait() == 0, f"{client}{bridge.log}"
        computes(region)
        installation.install(BRIDGE)
        upgraded(region)
    bridge.stop()


@needs_soft("NVIDIA's driver lies where the system has it, not beside the bridge")
def test_a_bridge_that_ends_at_once_says_why(region, installation):
    """It was able to read its options, but has no driver."""
    region.serve("--warm", "0")
    (installation.bridge.parent.parent / "lib").unlink()
    ran = upgrade(region, "--binary", installation.bridge)
    assert ran.status == 1 and "did not come to serve: " in ran.err and "soft" in ran.err, ran
    computes(region)


def test_a_bridge_that_finds_what_it_does_not_understand_ends_no_client(region, odd_bridge):
    """The file said yes when it was asked, but what it finds then is not what it understands."""
    bridge = region.serve("--warm", "0")
    client = region.background("client", *COPIES, f"seed={random.randrange(1 << 30)}")
    bridge.wait_for("client admitted")
    ran = upgrade(region, "--binary", odd_bridge("becomes"))
    assert ran.status == 1 and "did not come to serve: the link to workers has number 4 in the running bridge, and 5 to 6" in ran.err, ran
    assert client.wait() == 0, f"{client}{bridge.log}"


def test_a_bridge_that_fails_once_it_has_the_region_ends_no_client(region, scratch, odd_bridge):
    """It cannot open its metrics. It does not say good-bye for the earlier one, and leaves all that the keeper has for it."""
    doorbell = scratch / "doorbell"
    bridge = region.serve("--warm", "0", "--doorbell", doorbell)
    client = region.background("client", *COPIES, f"seed={random.randrange(1 << 30)}")
    bridge.wait_for("client admitted")
    ran = upgrade(region, "--binary", odd_bridge("metrics"))
    assert ran.status == 1 and "did not come to serve" in ran.err and "earlier one goes on" in ran.err, ran
    assert doorbell.exists()
    assert client.wait() == 0, f"{client}{bridge.log}"
    computes(region)


# ---- what is refused before anything is done
@pytest.fixture
def refused(region):
    def nothing_is_done(text, *words):
        before = region.bridge.proper
        for check in [], ["--check"]:
            ran = upgrade(region, *words, *check)
            assert ran.status == 1 and re.search(text, ran.err), ran
        assert region.bridge.proper == before
    return nothing_is_done


def test_files_that_others_may_have_made_and_what_is_no_bridge_are_refused(region, installation, refused):
    region.serve("--warm", "0")
    refused("No such file", "--binary", "/nowhere/barcuda-bridge")
    refused("the path is too long", "--binary", "/" + 5000 * "x")
    refused("not a regular file", "--binary", "/")
    refused("it ended with status 0 when it was asked", "--binary", "/bin/true")
    refused("cannot be executed", "--binary", written(installation.bridge.parent / "text", "text"))
    installation.install(BRIDGE, mode=0o775)
    refused("its group or others may write to it", "--binary", installation.bridge)
    if IS_ROOT:
        installation.install(BRIDGE)
        os.chown(installation.bridge, 65534, 65534)
        refused("it belongs to user 65534: it must belong to root", "--binary", installation.bridge)


def test_a_file_that_does_not_answer_is_refused_and_so_is_another_order_meanwhile(region, odd_bridge):
    region.serve("--warm", "0")
    before, silent = region.bridge.proper, odd_bridge("silent")
    waits = region.background("waits", BARCUDA, "upgrade", "--region", region.path, "--binary", silent, "--within", "5s", env={"LD_PRELOAD": None})
    region.wait_for_log("upgrade: replacement by")
    for check in [], ["--check"]:
        ran = upgrade(region, *check)
        assert ran.status == 1 and "an upgrade is under way already" in ran.err, ran
    assert waits.wait() == 1 and "it did not answer the check within 5 s. Nothing was changed" in waits.log, waits
    assert region.bridge.proper == before
    upgraded(region)


def test_an_option_that_the_new_bridge_does_not_know_is_refused(region, scratch, refused):
    """The new bridge reads the options again, with what the administrator has changed since."""
    options = written(scratch / "vm.conf", "warm = 0\n")
    region.serve(env={"BARCUDA_CONFIG": options})
    written(options, "warm = 0\nregoin = 1\n")
    refused("regoin")


def test_a_check_changes_nothing(region):
    region.serve("--warm", "0")
    before = region.bridge.proper
    ran = upgrade(region, "--check")
    assert ran.status == 0 and re.search(r"can go on with the clients .*layout\d", ran.out) and region.bridge.proper == before, ran


@pytest.mark.skipif(not may_be_other_user(), reason="needs root, to be another user")
def test_another_user_upgrades_nothing(region):
    region.serve("--warm", "0")
    os.chmod(region.folder, 0o755)
    before = region.bridge.proper
    ran = run(*other_user(BARCUDA, "upgrade", "--region", region.path))
    assert ran.status == 1 and region.bridge.proper == before, ran


def test_the_file_tells_its_numbers():
    told = json.loads(succeed(BRIDGE, "--numbers"))
    assert set(told) == {"build", "layout", "packets", "books", "worker", "link", "keeper"}
    assert all(0 < told[name]["oldest"] <= told[name]["newest"] for name in set(told) - {"build"}), told


# ---- links
def test_workers_of_the_link_before_are_served_and_older_ones_refused_by_name(region, refused):
    """This build's link is 4. Bridge 5 speaks 4 and 5, bridge 6 speaks 5 and 6."""
    bridge = region.serve("--warm", "0")
    link5, link6 = BUILD / "e2e/bridge-link5", BUILD / "e2e/bridge-link6"
    refused("the link to workers has number 4 in the running bridge, and 5 to 6 in the new one", "--binary", link6)
    client = region.background("client", *COPIES, f"seed={random.randrange(1 << 30)}")
    bridge.wait_for("client admitted")
    upgraded(region, "--binary", link5)
    computes(region)
    if client.runs():  # a worker of link 4 lives, and clients may get workers of link 5
        refused("the link to workers has number 4 to 5 in the running bridge, and 5 to 6 in the new one", "--binary", link6)
    refused("the link to workers has number (4 to )?5 in the running bridge, and (3 to )?4 in the new one", "--binary", BRIDGE)
    assert client.wait() == 0, f"{client}{bridge.log}"
    bridge.wait_for(f"reclaimed, .* pid {client.pid},")  # the last one with a worker of link 4
    upgraded(region, "--binary", link6)
    computes(region)


# ---- all bridges
def test_without_a_name_all_bridges_are_upgraded(own_mounts, regions):
    both = regions(), regions()
    for i, one in enumerate(both):
        one.serve("--warm", "0", "--name", f"vm{i}")
    before = [one.bridge.proper for one in both]
    ran = run(BARCUDA, "upgrade", "vm1")
    assert ran.status == 0 and ran.out.startswith("vm1: ") and both[0].bridge.proper == before[0] != both[1].bridge.proper, ran
    ran = run(BARCUDA, "upgrade", "vm2")
    assert ran.status == 1 and "there is no VM with the name vm2" in ran.err, ran
    before = [one.bridge.proper for one in both]
    ran = run(BARCUDA, "upgrade")
    assert ran.status == 0 and ran.out.count("serves in place of") == 2, ran
    assert not set(before) & {one.bridge.proper for one in both}


def test_without_a_bridge_there_is_nothing_to_upgrade(own_mounts):
    ran = run(BARCUDA, "upgrade")
    assert ran.status == 1 and "no bridge" in ran.err, ran
