# SPDX-License-Identifier: Apache-2.0
"""`make install` honours DESTDIR, PREFIX and LIBDIR, and what it installs works from wherever it lies; `make uninstall` takes all of it away;
`make install-strip` leaves symbols behind; `make dist` is the tree, of the version that VERSION names, and with Debian's changelog."""
import os
import re

import pytest

from e2e.flat import BUILD, DEVICE, TOP, run, succeed

VERSION = (TOP / "VERSION").read_text().strip()
ELF = b"\x7fELF"


def make(*words):
    return run("make", "-s", f"B={os.environ.get('BUILD', 'build')}", *words, patience=600)


def succeeds(*words):
    ran = make(*words)
    assert ran.status == 0, ran


def files_in(folder):
    return sorted(path for path in folder.rglob("*") if not path.is_dir() or path.is_symlink())


class Place:
    """Where all is installed: below `root`, as if that were the system's root."""

    def __init__(self, folder):
        self.folder, self.root, self.prefix = folder, folder / "root", folder / "root/opt/b"
        self.words = [f"DESTDIR={self.root}", "PREFIX=/opt/b", "LIBDIR=/opt/b/lib64"]
        succeeds("install-strip", *self.words)


@pytest.fixture(scope="module")
def place(shared):
    return Place(shared)


def test_installed_programs_and_libraries_have_no_symbols(place):
    programs = [path for path in files_in(place.root) if path.is_file() and path.open("rb").read(4) == ELF]
    assert len(programs) > 3, programs
    assert ".symtab" not in succeed("readelf", "-S", *programs)


def test_everything_is_below_the_prefix_and_libraries_where_they_are_to_be(place):
    assert [path.name for path in place.root.iterdir()] == ["opt"] and [path.name for path in (place.root / "opt").iterdir()] == ["b"]
    assert (place.prefix / "lib64/barcuda/libbarcuda.so").exists()


def test_units_and_the_modules_source_have_their_names_filled_in(place):
    for path in files_in(place.prefix / "lib/systemd") + files_in(place.prefix / "src"):
        assert not re.search("@[A-Z]*@", path.read_text(errors="replace")), path
    unit = (place.prefix / "lib/systemd/system/barcuda-bridge@.service").read_text()
    assert "ExecStart=!/opt/b/bin/barcuda-bridge" in unit.splitlines(), unit


def test_moved_it_still_runs(place):
    moved = place.prefix.rename(place.folder / "moved")
    try:
        ran = run(moved / "bin/barcuda", "run", "--device", DEVICE, "--", BUILD / "programs/vector_add")
        assert re.search("^PASSED", ran.out, re.M), ran
    finally:
        moved.rename(place.prefix)


def test_uninstalled_only_what_another_program_installed_is_left(place, scratch):
    succeed("cp", "-a", place.root, scratch)
    root = scratch / "root"
    another = root / "opt/b/lib/systemd/system/mine.service"
    another.write_text("mine\n")
    succeeds("uninstall", f"DESTDIR={root}", *place.words[1:])
    assert files_in(root) == [another]
    assert not list(root.rglob("*barcuda*")), "folders are left"


def test_a_libdir_where_no_program_would_look_is_refused(scratch):
    ran = make("install", f"DESTDIR={scratch}/root", "PREFIX=/opt/b", "LIBDIR=/opt/libraries")
    assert ran.status != 0 and "LIBDIR=/opt/libraries" in ran.said, ran


def test_headers_of_an_older_cuda_are_refused(scratch):
    (scratch / "include").mkdir()
    (scratch / "include/cuda.h").write_text("#define CUDA_VERSION 12040\n")
    ran = make("headers", f"CUDA_HOME={scratch}")
    assert ran.status != 0 and "the headers of CUDA 12.4, and no cuda.h of CUDA 13.0 or newer" in ran.said, ran
    succeeds("headers")


def test_the_tarball_is_the_tree_with_debians_changelog(scratch):
    tree = run("git", "ls-tree", "-r", "--name-only", "HEAD")
    if tree.status:
        pytest.skip("this is no git repository")
    succeeds("dist", f"packages_folder={scratch}")
    succeed("tar", "-xf", scratch / f"barcuda-{VERSION}.tar.gz", "-C", scratch)
    folder = scratch / f"barcuda-{VERSION}"
    assert re.search(rf"^barcuda \({re.escape(VERSION)}\) ", (folder / "debian/changelog").read_text(), re.M)
    made = {str(path.relative_to(folder)) for path in files_in(folder)} - {"debian/changelog", "barcuda.spec", "PKGBUILD"}
    assert made == set(tree.out.splitlines())
