# SPDX-License-Identifier: Apache-2.0
"""One barcuda-soft for all releases of a distribution: the software GPU's compiler names no library of LLVM's, and takes the one that is there;
without one kernels are interpreted. In namespaces of mounts, where libraries are hidden."""
import re
import shlex
from pathlib import Path

import pytest

from e2e.flat import BARCUDA, BUILD, IS_ROOT, LIBRARIES, needs_soft, not_sanitized, run, succeed

COMPILER = LIBRARIES / "barcuda-soft/libbarcuda-ptx.so"
LLVMS = sorted(path for path in Path("/usr/lib/x86_64-linux-gnu").glob("libLLVM*.so*") if path.is_file())
pytestmark = [needs_soft("it is the software GPU's"), not_sanitized("a sanitizer's library may need others"),
              pytest.mark.skipif(not COMPILER.exists(), reason="built without LLVM's headers (llvm-dev)")]


def test_the_compiler_names_no_library_of_llvms_and_lacks_only_its_functions():
    assert "LLVM" not in "".join(re.findall(r"NEEDED.*", succeed("readelf", "-d", COMPILER)))
    lacks = re.findall(r"^ +U (\S+)$", succeed("nm", "-D", "--undefined-only", COMPILER), re.M)
    assert [name for name in lacks if "@" not in name and not name.startswith("LLVM")] == []
    assert len(lacks) > 50


def compiles(*hidden):
    """A program on the software GPU, which compiles at once, where these libraries are empty files."""
    if not IS_ROOT or run("unshare", "--mount", "true").status:
        pytest.skip("needs root, and unshare --mount, to hide libraries")
    script = [f"mount --bind /dev/null {shlex.quote(str(path))}" for path in hidden]
    ran = run("unshare", "--mount", "sh", "-ec", "\n".join([*script, 'exec "$@"']), "sh", BARCUDA, "run", "--device", "soft", "--region-size", "256M",
              "--", BUILD / "programs/vector_add", env={"BARCUDA_SOFT_COMPILE": "always"})
    assert ran.status == 0 and "PASSED" in ran.out, ran
    return "interprets all kernels" not in ran.err


def test_any_llvm_from_14_on_will_do():
    versions = {re.search(r"\d+", path.name)[0] for path in LLVMS}
    assert versions, "the compiler was built, and there is no LLVM"
    for version in versions:
        assert compiles(*(path for path in LLVMS if re.search(r"\d+", path.name)[0] != version)), f"not with LLVM {version}"


def test_without_llvm_kernels_are_interpreted():
    assert not compiles(*LLVMS)
