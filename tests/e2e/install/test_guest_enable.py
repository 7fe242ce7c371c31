# SPDX-License-Identifier: Apache-2.0
"""`barcuda guest enable`: programs run with no variable set by hand, by each of the ways; what others wrote in the same files stays, and
`disable` leaves files as they were. In an /etc and a /dev/shm of the tests' own."""
import os
import re
import shutil
from pathlib import Path

import pytest

from e2e.flat import BARCUDA, BUILD, LIBRARIES, Region, gxx, may_be_other_user, other_user, run, succeed, text_of, written

OWN_MOUNTS = "an /etc, a /dev/shm and a /usr/local/bin", """
mount -t tmpfs -o mode=1777 tmpfs /dev/shm && cp -a /etc /dev/shm/etc && mount --bind /dev/shm/etc /etc && ldconfig &&
mount -t tmpfs tmpfs /usr/local/bin"""
pytestmark = pytest.mark.usefixtures("own_mounts")
VECTOR_ADD = BUILD / "programs/vector_add"
PRELOADS, VARIABLES = Path("/etc/ld.so.preload"), Path("/etc/environment")
OF_LOGINS, OF_SERVICES = Path("/etc/environment.d/50-barcuda.conf"), Path("/etc/systemd/system.conf.d/50-barcuda.conf")
LOADERS = Path("/etc/ld.so.conf.d/000-barcuda.conf")
SMI = Path("/usr/local/bin/nvidia-smi")
OTHERS = "/no/other.so\n"


def remove(path):
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


class Guest:
    """This machine as a guest. Its region is named by a variable, in place of a VM's, which programs find by themselves. `etc`: a copy of /etc,
    as it was before."""

    def __init__(self, region, etc, scratch):
        self.region, self.etc, self.scratch = region, etc, scratch

    def reset(self):
        SMI.unlink(missing_ok=True)
        LOADERS.unlink(missing_ok=True)
        succeed("ldconfig")
        for place in VARIABLES, PRELOADS, OF_LOGINS.parent, OF_SERVICES.parent:
            remove(place)
            before = self.etc / place.relative_to("/etc")
            if before.is_dir():
                shutil.copytree(before, place, symlinks=True)
            elif before.exists():
                shutil.copy2(before, place)

    def command(self, *words, home=None, **how):
        return run(BARCUDA, "guest", *words, **({"env": {"HOME": home}} if home else {}), **how)

    def succeeds(self, *words, **how):
        ran = self.command(*words, **how)
        assert ran.status == 0, ran
        return ran.out

    def status(self, line, env=None):
        """`barcuda guest` says it, each time it is asked."""
        said = succeed(BARCUDA, "guest", env=env)
        assert succeed(BARCUDA, "guest", "status", env=env) == said
        assert re.search(line, said, re.M), f"not {line!r} but: {said}"

    def passes(self, *variables, program=(VECTOR_ADD,)):
        """The program runs, with these variables and no other."""
        ran = run("env", "-i", f"BARCUDA_REGION={self.region.path}", *variables, *program)
        assert re.search("^PASSED", ran.out, re.M), ran

    def etc_is_as_it_was(self):
        for folder in OF_LOGINS.parent, OF_SERVICES.parent:
            if folder.is_dir() and not any(folder.iterdir()):
                folder.rmdir()
        ran = run("diff", "-r", "--no-dereference", self.etc, "/etc")
        assert ran.status == 0, ran


def variables_of(file):
    return [line for line in text_of(file).splitlines() if line and not line.startswith("#")]


@pytest.fixture(scope="module")
def machine(own_mounts, shared):
    """A bridge, and a copy of /etc, which holds a line of another program's."""
    if "ordinary users may change" in run(BARCUDA, "guest", "enable").err:
        pytest.skip("the build lies in a folder that others than root may write to, from which nothing is enabled")
    succeed(BARCUDA, "guest", "disable")
    with VARIABLES.open("a", encoding="utf-8") as file:
        file.write("A=1\n")
    PRELOADS.unlink(missing_ok=True)
    for folder in OF_LOGINS.parent, OF_SERVICES.parent:  # an empty one says nothing
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()
    succeed("ldconfig")
    succeed("cp", "-a", "/etc", shared / "etc")
    region = Region()
    try:
        region.serve(size="512M")
        yield region, shared / "etc"
    finally:
        region.close()


@pytest.fixture
def guest(machine, scratch):
    guest = Guest(*machine, scratch)
    yield guest
    guest.reset()


def test_with_nothing_enabled_no_program_runs_and_the_status_says_so(guest):
    if not shutil.which("nvidia-smi"):
        ran = run("env", "-i", f"BARCUDA_REGION={guest.region.path}", VECTOR_ADD)
        assert ran.status != 0, f"it runs with nothing enabled: {ran}"
    guest.status("^enabled +for no program")
    guest.status(f"^region +{guest.region.path}, 512 MiB, [0-9]+ GPUs$", env=guest.region.named)
    assert guest.succeeds("disable") == "nothing was enabled here\n"


def test_enabled_programs_of_logins_and_of_services_run_and_disabled_the_files_are_as_they_were(guest):
    guest.succeeds("enable")
    guest.status(r"^enabled +for logins, ssh, cron, su \(/etc/environment\)$")
    guest.status(rf"^ +for services \({OF_SERVICES}\)$")
    assert "A=1" in VARIABLES.read_text().splitlines(), "another program's line is gone"
    for file in VARIABLES, OF_LOGINS:
        guest.passes(*variables_of(file))
    services = re.search("^DefaultEnvironment=(.*)$", OF_SERVICES.read_text(), re.M)[1]
    assert services.replace('"', "").split() == variables_of(OF_LOGINS)
    guest.succeeds("disable")
    guest.etc_is_as_it_was()
    assert guest.succeeds("disable") == "nothing was enabled here\n"
    guest.status("^enabled +for no program")


def test_enabled_programs_without_variables_find_the_libraries_and_so_does_ctypes(guest):
    """As under sudo and env -i. The loader's cache names them first, also where a toolkit is installed."""
    guest.succeeds("enable")
    guest.passes()
    for name in "cuda", "cudart", "nvidia-ml":
        found = succeed("/usr/bin/python3", "-c", f"import ctypes.util; print(ctypes.util.find_library({name!r}))")
        assert re.match(rf"lib{name}\.so\.[0-9.]+$", found), found
    count = succeed("env", "-i", f"BARCUDA_REGION={guest.region.path}", "/usr/bin/python3", "-c",
                    "import ctypes; n = ctypes.c_int(); print(ctypes.CDLL('libcudart.so.12').cudaGetDeviceCount(ctypes.byref(n)), n.value)")
    assert count == "0 1\n"
    guest.succeeds("disable")
    assert "barcuda" not in succeed("ldconfig", "-p")
    guest.etc_is_as_it_was()


def test_enabled_nvidia_smi_is_ours_and_disabled_it_is_gone(guest):
    guest.succeeds("enable")
    assert re.match("GPU 0: ", succeed("sh", "-c", "nvidia-smi -L", env=guest.region.named))
    guest.status(rf"^commands +{SMI} is `barcuda smi`$")
    guest.succeeds("disable")
    assert not SMI.is_symlink()


def test_another_programs_nvidia_smi_stays(guest):
    written(SMI, "another")
    assert re.search(f"^{SMI} +is another program's, and stays", guest.succeeds("enable"), re.M)
    guest.succeeds("disable")
    assert SMI.read_text() == "another"


def test_to_enable_twice_is_to_enable_once(guest):
    guest.succeeds("enable")
    once = VARIABLES.read_text()
    guest.succeeds("enable")
    assert VARIABLES.read_text() == once


def test_enabled_for_every_program_each_runs_however_it_is_started(guest):
    PRELOADS.write_text(OTHERS)
    guest.succeeds("enable", "--every-program")
    guest.passes()
    guest.status(rf"^ +for every program, however it is started \({PRELOADS}\)$")
    plain = gxx(guest.scratch / "plain", "-x", "c", written(guest.scratch / "plain.c", "int main(void) { return 0; }\n"))
    succeed("env", "-i", plain)
    guest.succeeds("disable")
    assert PRELOADS.read_text() == OTHERS
    PRELOADS.unlink()
    guest.etc_is_as_it_was()


def test_a_program_of_another_users_is_not_led_by_the_variables_of_the_user_that_starts_it(guest):
    if not may_be_other_user():
        pytest.skip("needs root and setpriv, to be another user")
    scratch = guest.scratch
    scratch.chmod(0o1777)
    guest.succeeds("enable", "--every-program")
    shutil.copy(VECTOR_ADD, scratch / "suid")
    (scratch / "suid").chmod(0o4755)
    ran = run(*other_user("env", "-i", f"BARCUDA_STATS={scratch}/stats", f"BARCUDA_TRACE={scratch}/trace", "BARCUDA_REGION=/no/region",
                          "LD_LIBRARY_PATH=/nowhere", scratch / "suid"))
    assert "/no/region" not in ran.said, f"a variable leads root's program: {ran}"
    assert not (scratch / "stats").exists() and not (scratch / "trace").exists(), "root's program wrote a file of another user's choice"


def test_another_user_enables_nothing_for_all_and_is_told_of_its_own_way(guest):
    if not may_be_other_user():
        pytest.skip("needs root and setpriv, to be another user")
    ran = run(*other_user(BARCUDA, "guest", "enable"))
    assert ran.status != 0 and "--user" in ran.said, ran


@pytest.mark.parametrize("mode, owner, is_safe", [(0o755, 0, True), (0o775, 0, True), (0o777, 0, False), (0o755, 65534, False)])
def test_what_ordinary_users_may_change_is_not_made_every_programs(guest, mode, owner, is_safe):
    """Here the folder above the libraries."""
    prefix = guest.scratch / "prefix"
    (prefix / "bin").mkdir(parents=True)
    shutil.copy(BARCUDA, prefix / "bin")
    (prefix / "lib").symlink_to(LIBRARIES)
    prefix.chmod(mode)
    os.chown(prefix, owner, 0)
    ran = run(prefix / "bin/barcuda", "guest", "enable")
    if is_safe:
        assert ran.status == 0, ran
        guest.succeeds("disable")
    else:
        assert ran.status == 1 and f"ordinary users may change {prefix}, " in ran.err and not LOADERS.exists(), ran
        home = guest.scratch / "home"
        home.mkdir()
        assert run(prefix / "bin/barcuda", "guest", "enable", "--user", env={"HOME": home}).status == 0
        assert run(prefix / "bin/barcuda", "guest", "disable").status == 0


def test_a_user_enables_it_for_its_own_logins(guest):
    home = guest.scratch / "home"
    home.mkdir()
    profile = written(home / ".profile", "B=1\n")
    guest.succeeds("enable", "--user", home=home)
    guest.status(rf"^ +for your login shells \({profile}\)$", env={"HOME": home})
    guest.passes(program=("sh", "-c", '. "$1"/.profile; [ $B = 1 ] && exec "$2"', "sh", home, VECTOR_ADD))
    smi = home / ".local/bin/nvidia-smi"
    assert smi.resolve() == BARCUDA
    assert not LOADERS.exists() and not SMI.exists(), "a user changed the system"
    guest.succeeds("disable", "--user", home=home)
    assert not smi.is_symlink()
    assert profile.read_text() == "B=1\n"


def test_a_root_with_another_librarys_line_is_left_alone(guest):
    root = guest.scratch / "root"
    (root / "etc").mkdir(parents=True)
    (root / "etc/environment").write_text("LD_PRELOAD=/other.so\n")
    ran = guest.command("enable", "--root", root)
    assert ran.status != 0 and "/other.so" in ran.said, ran
    assert [file.name for file in (root / "etc").iterdir()] == ["environment"]
