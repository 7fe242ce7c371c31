# SPDX-License-Identifier: Apache-2.0
"""The packages of distributions with rpm and of Arch Linux are Debian's: each file that `make install` places is in one of them, and nothing
else but pages and licences; unpacked, they run a program. None claims to be a library that others look for."""
import os
import re
import shutil
from pathlib import Path

import pytest

from e2e.flat import BUILD, IS_ROOT, TOP, lacks, not_sanitized, run, succeed

VERSION = (TOP / "VERSION").read_text().strip()
RPM_TOOLS = {"rpmbuild": "rpm", "rpm2cpio": "rpm2cpio", "cpio": "cpio"}
ARCH_TOOLS = {"makepkg": "makepkg", "pacman": "pacman-package-manager", "bsdtar": "libarchive-tools", "fakeroot": "fakeroot", "setpriv": "util-linux"}
B = f"B={os.environ.get('BUILD', 'build')}"
pytestmark = not_sanitized("packages are not made of a build under a sanitizer")


def needs(tools):
    if missing := lacks(tools):
        pytest.skip(f"not installed: {' '.join(missing)}")


def files_in(folder):
    """All files below it, by their paths from there on."""
    return sorted(str(Path(place, name).relative_to(folder)) for place, folders, names in os.walk(folder)
                  for name in names + [f for f in folders if Path(place, f).is_symlink()])


@pytest.fixture(scope="module")
def installed(shared):
    """The files that `make install` places."""
    succeed("make", "-s", "install", B, f"DESTDIR={shared}/all", "PREFIX=/usr", "LIBDIR=/usr/lib", patience=600)
    files = files_in(shared / "all")
    shutil.rmtree(shared / "all")
    return files


@pytest.fixture(scope="module")
def rpms(shared):
    """The packages for rpm."""
    needs(RPM_TOOLS)
    succeed("make", "-s", "rpm", B, f"packages_folder={shared}/packages", "RPMFLAGS=--define '_binary_payload w1.gzdio'", patience=600)
    return sorted((shared / "packages").glob("*.rpm"))


@pytest.fixture(scope="module")
def unpacked_rpms(rpms, shared):
    """Each package's files in a folder of its name."""
    for file in rpms:
        folder = shared / "rpm" / name_of(file)
        folder.mkdir(parents=True)
        succeed("sh", "-ec", 'rpm2cpio "$0" | cpio -idm --quiet', file, cwd=folder)
    return shared / "rpm"


@pytest.fixture(scope="module")
def unpacked_arch(shared):
    """The same for Arch Linux. makepkg is not for root."""
    needs(ARCH_TOOLS)
    place = shared / "arch-build"
    place.mkdir()
    shared.chmod(0o755)
    place.chmod(0o755)
    succeed("make", "-s", shared / "packages/PKGBUILD", f"packages_folder={shared}/packages")
    shutil.copy(shared / "packages/PKGBUILD", place)
    succeed("tar", "-cz", "--exclude=./.git", "--exclude=./build*", "--transform", rf"s,^\.,barcuda-{VERSION},", "-f", place / f"barcuda-{VERSION}.tar.gz", ".")
    user = []
    if IS_ROOT:
        user = ["setpriv", "--reuid=nobody", "--clear-groups"]
        succeed("chown", "-R", "nobody", place)
    succeed(*user, "makepkg", "-d", cwd=place, env={"HOME": place, "BUILD": BUILD.resolve(), "PKGEXT": ".pkg.tar"}, patience=600)
    for file in place.glob("*.pkg.tar"):
        folder = shared / "arch" / file.name.rpartition(f"-{VERSION}-")[0]
        folder.mkdir(parents=True)
        succeed("bsdtar", "-xf", file, "-C", folder, "--exclude", ".[A-Z]*")
    return shared / "arch"


@pytest.fixture(params=["rpm", "arch"])
def unpacked(request):
    return request.getfixturevalue({"rpm": "unpacked_rpms", "arch": "unpacked_arch"}[request.param])


def name_of(file):
    return succeed("rpm", "-qp", "--qf", "%{NAME}", file)


def test_no_rpm_provides_a_library_or_wants_one_that_is_in_it(rpms):
    assert rpms
    for file in rpms:
        assert ".so" not in (provides := succeed("rpm", "-qp", "--provides", file)), f"{file.name}: {provides}"
        assert not re.search("libcu(da|blas|rand)", requires := succeed("rpm", "-qp", "--requires", file)), f"{file.name}: {requires}"


def test_the_rpm_of_guests_and_hosts_wants_no_newer_glibc_than_guests_have(rpms):
    oldest = re.search("^glibc := (.*)$", (TOP / "mk/settings.mk").read_text(), re.M)[1]
    common, = (file for file in rpms if name_of(file) == "barcuda-common")
    wanted = re.findall(r"\(GLIBC_([0-9.]*)\)", requires := succeed("rpm", "-qp", "--requires", common))
    assert wanted and all(numbers(version) <= numbers(oldest) for version in wanted), requires


def numbers(version):
    return [int(number) for number in version.split(".")]


def test_rpms_are_of_the_version_that_the_file_names(rpms):
    assert {succeed("rpm", "-qp", "--qf", "%{VERSION}", file) for file in rpms} == {VERSION}


def test_the_packages_have_the_files_of_make_install_each_once(installed, unpacked):
    """Pages of the manual may be compressed; pages and licences have places of their own."""
    files = [re.sub(r"(/man/.*)[.]gz$", r"\1", file.partition("/")[2]) for file in files_in(unpacked)
             if not re.match("[^/]*/usr/share/(licenses|doc/barcuda-doc)/", file)]
    assert sorted(files) == installed


def test_the_packages_have_the_pages_and_a_folder_for_configuration(unpacked):
    assert (unpacked / "barcuda-doc/usr/share/doc/barcuda-doc/docs/install.md").read_text() == (TOP / "docs/install.md").read_text()
    assert (unpacked / "barcuda-host/etc/barcuda").is_dir()


def test_unpacked_the_packages_run_a_program(unpacked, scratch):
    for package in unpacked.iterdir():
        succeed("cp", "-a", f"{package}/.", scratch)
    ran = run(scratch / "usr/bin/barcuda", "run", "--device", "soft", "--region-size", "256M", "--", BUILD / "programs/vector_add")
    assert re.search("^PASSED", ran.out, re.M), ran
