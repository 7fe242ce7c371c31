# SPDX-License-Identifier: Apache-2.0
"""Another user of the machine who watches the folder of regions gets no file of their own into `barcuda run`, and none at a bridge's predictable
name. In a /dev/shm of the test's own: this user would take the regions of other tests as well."""
import re
from pathlib import Path

import pytest

from e2e.conftest import OWN_SHM
from e2e.flat import BARCUDA, BRIDGE, DEVICE, RUN, Program, gxx, need, other_user, run, succeed, written

OWN_MOUNTS = "a /dev/shm", OWN_SHM
pytestmark = pytest.mark.usefixtures("own_mounts")
ANOTHER = 65534
# Makes whatever `barcuda run` is about to make: the file, as soon as its name is known and free; a file in its folder.
THIEF = r"""
#include <fcntl.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cstdio>
#include <cstring>
#include <string>
static void make(const std::string& path) {
    umask(0);
    const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL, 0666);
    if (fd >= 0 && ftruncate(fd, 256 << 20) == 0) printf("made %s\n", path.c_str());
    close(fd);
}
int main() {
    const int watch = inotify_init();
    if (inotify_add_watch(watch, "/dev/shm", IN_CREATE | IN_DELETE) < 0) return 1;
    printf("running\n");
    alignas(inotify_event) char events[4096];
    for (ssize_t n; fflush(stdout), (n = read(watch, events, sizeof events)) > 0;)
        for (char* at = events; at < events + n;) {
            auto* e = reinterpret_cast<inotify_event*>(at);
            at += sizeof *e + e->len;
            if (strncmp(e->name, "barcuda-run-", 12)) continue;
            printf("saw %s\n", e->name);
            make(std::string("/dev/shm/") + e->name);
            make(std::string("/dev/shm/") + e->name + "/region");
        }
}
"""


@pytest.fixture
def thief(own_mounts, scratch):
    need("setpriv")
    scratch.chmod(0o711)
    program = Program(scratch, "thief", other_user(gxx(scratch / "thief", "-O2", written(scratch / "thief.cc", THIEF))))
    program.wait_for("running")
    yield program
    program.kill()


def test_barcuda_run_has_a_folder_that_no_other_user_enters(thief):
    runs = 5
    for _ in range(runs):
        folder, region = succeed(*RUN[:-1], "--region-size", "256M", "--", "sh", "-c", 'stat -c "%u %a" "$(dirname "$BARCUDA_REGION")" "$BARCUDA_REGION"').splitlines()
        assert folder == "0 700" and re.fullmatch("0 6.0", region), f"owner and mode of the region's folder and the region: {folder}, {region}"
    last = Path("/dev/shm/barcuda-run-end")
    last.touch()
    thief.wait_for(f"^saw {last.name}")  # so the thief has come to all before
    # A name that is free again, when all is over, is for all users.
    assert thief.out.count("saw barcuda-run-") > runs, f"the thief did not see the runs, so this shows nothing: {thief}"
    assert not re.search("^made .*/region$", thief.out, re.M), f"another user made a file in the folder: {thief}"


@pytest.fixture
def place(own_mounts, scratch):
    """A name for a region in a folder where all users may make files."""
    need("setpriv")
    scratch.chmod(0o711)
    folder = scratch / "everybodys"
    folder.mkdir()
    folder.chmod(0o1777)
    return folder / "region"


def refused(place, reason):
    """The bridge does not take what is there, also if it may overwrite it."""
    ran = run(BRIDGE, "--region", place, "--size", "256M", "--overwrite", "--device", DEVICE)
    assert ran.status == 1 and reason in ran.err, ran


def test_a_bridge_does_not_take_another_users_file(place):
    succeed(*other_user("sh", "-c", f"umask 0; truncate -s 256M '{place}'"))
    refused(place, f"belongs to user {ANOTHER}")


def test_neither_a_bridge_nor_a_container_is_given_what_another_users_link_leads_to(place, scratch):
    precious = written(scratch / "precious", "precious\n")
    succeed(*other_user("ln", "-s", precious, place))
    refused(place, "a symbolic link")
    assert precious.read_text() == "precious\n", "the link's file was written to"
    ran = run(BARCUDA, "cdi", "vm1", "--region", place)
    assert ran.status != 0 and "a symbolic link, not a region" in ran.err and not ran.out, ran
