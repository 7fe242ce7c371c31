# SPDX-License-Identifier: Apache-2.0
"""No file of a guest's packages, and none of the software GPU, asks for a symbol that came after the glibc that the Makefile names; a guest's asks
for no library that is neither glibc's nor in the package."""
import re

import pytest

from e2e.flat import LIBRARIES, TOP, not_sanitized, succeed

pytestmark = not_sanitized("what runs under a sanitizer is for this machine")
GLIBCS = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "ld-linux-x86-64.so.2"}
ELF = b"\x7fELF"


def numbers(version):
    return [int(number) for number in version.split(".")]


@pytest.fixture(scope="module")
def files(request):
    """All programs and libraries of the packages, with what objdump says of each: {path: text}."""
    folder = request.getfixturevalue("carried")
    found = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink() and path.open("rb").read(4) == ELF]
    assert len(found) >= 3, found
    return {str(path.relative_to(folder)): succeed("objdump", "-T", "-p", path) for path in found}


def needs_no_newer_glibc(path, said):
    oldest = re.search("^glibc := (.*)$", (TOP / "mk/settings.mk").read_text(), re.M)[1]
    wanted = re.findall(r"\*UND\*.*\bGLIBC_([0-9.]+)\)? *(.*)", said)
    newer = [(version, name) for version, name in wanted if numbers(version) > numbers(oldest)]
    assert not newer, f"{path}: {newer}"


def test_no_file_needs_a_newer_glibc(files):
    for path, said in files.items():
        needs_no_newer_glibc(path, said)


def test_the_software_gpu_needs_no_newer_glibc_and_nothing_of_gccs_or_zstds():
    files = list((LIBRARIES / "barcuda-soft").glob("lib*.so*"))
    assert len(files) >= 4
    for path in files:
        said = succeed("objdump", "-T", "-p", path)
        needs_no_newer_glibc(path, said)
        assert not re.search(r"^ +NEEDED +(libstdc\+\+|libgcc_s|libzstd)", said, re.M), said


def test_no_file_needs_a_library_that_a_guest_may_not_have(files):
    ours = {name for said in files.values() for name in re.findall(r"^ +SONAME +(\S+)", said, re.M)}
    for path, said in files.items():
        others = set(re.findall(r"^ +NEEDED +(\S+)", said, re.M)) - GLIBCS - ours
        assert not others, f"{path}: {others}"
