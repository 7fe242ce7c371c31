# SPDX-License-Identifier: Apache-2.0
"""No file of a guest's packages asks for a symbol that came after the glibc that the Makefile names, or for a library that is neither glibc's
nor in the package."""
import re

import pytest

from e2e.flat import TOP, not_sanitized, succeed

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


def test_no_file_needs_a_newer_glibc(files):
    oldest = re.search("^glibc := (.*)$", (TOP / "mk/settings.mk").read_text(), re.M)[1]
    for path, said in files.items():
        wanted = re.findall(r"\*UND\*.*\bGLIBC_([0-9.]+)\)? *(.*)", said)
        newer = [(version, name) for version, name in wanted if numbers(version) > numbers(oldest)]
        assert not newer, f"{path}: {newer}"


def test_no_file_needs_a_library_that_a_guest_may_not_have(files):
    ours = {name for said in files.values() for name in re.findall(r"^ +SONAME +(\S+)", said, re.M)}
    for path, said in files.items():
        others = set(re.findall(r"^ +NEEDED +(\S+)", said, re.M)) - GLIBCS - ours
        assert not others, f"{path}: {others}"
