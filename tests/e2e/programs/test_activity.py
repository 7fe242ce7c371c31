# SPDX-License-Identifier: Apache-2.0
"""A profiler in the program sees what the GPU does, by the host's CUPTI (tests/programs/own_profiler.cu, which all programs' tests run); what is not
served says so, and so does a host without CUPTI."""
import shutil
import sys

import pytest

from e2e.flat import BRIDGE, BUILD, LIBRARIES, gxx, needs_soft, written

PROFILER = BUILD / "programs/own_profiler"


@needs_soft("the toolkit's CUPTI is on a host with a GPU")
def test_what_is_not_served_says_so(region):
    region.serve()
    ran = region.client(PROFILER, "guest")
    assert ran.status == 0 and "PASSED" in ran.out, ran
    assert ran.err.count("barcuda: cuptiDeviceGetNumEventDomains: not supported: ") == 1, ran


@pytest.mark.parametrize("name", ["libcupti.so.12", "libcupti.so.13"])
def test_programs_that_open_cupti_by_name_find_it(region, name):
    region.serve()
    ran = region.client(sys.executable, "-c", f"import ctypes; ctypes.CDLL('{name}').cuptiActivityEnable(10) and exit(1); print('found')")
    assert ran.out == "found\n", ran


# Packages of Python bring NVIDIA's CUPTI, and open it by its path.
@pytest.mark.parametrize("name", ["libcupti.so.13", "libcupti.so"])
def test_programs_that_open_another_cupti_by_its_path_get_the_guests(region, tmp_path, name):
    region.serve()
    other = gxx(tmp_path / name, "-shared", "-fPIC", written(tmp_path / "other.cc", 'extern "C" int cuptiSubscribe() { return 999; }'))
    ask = "import ctypes, sys; print(hasattr(ctypes.CDLL(sys.argv[1]), 'barcuda_guest_library'))"
    assert region.client(sys.executable, "-c", ask, other).out == "True\n"
    assert region.client(sys.executable, "-c", ask, other.rename(tmp_path / "libcupti_of_mine.so")).out == "False\n"


def test_a_library_is_found_by_the_search_path_of_the_one_that_opens_it(region, tmp_path):
    region.serve()
    gxx(tmp_path / "libbeside.so", "-shared", "-fPIC", written(tmp_path / "beside.cc", 'extern "C" int answer() { return 42; }'))
    opens = written(tmp_path / "opens.cc", """
        #include <dlfcn.h>
        #include <stdio.h>
        int main() {
            void* const library = dlopen("libbeside.so", RTLD_NOW);
            if (!library) return puts(dlerror()), 1;
            printf("%d", ((int (*)())dlsym(library, "answer"))());
        }""")
    ran = region.client(gxx(tmp_path / "opens", opens, "-Wl,--enable-new-dtags,-rpath,$ORIGIN", "-ldl"))
    assert ran.out == "42", ran


@needs_soft("the toolkit's CUPTI is on a host with a GPU")
def test_a_host_without_cupti_says_what_to_install(region, tmp_path):
    bridge, soft = tmp_path / "bin/barcuda-bridge", tmp_path / "lib/barcuda-soft"
    for folder in bridge.parent, soft:
        folder.mkdir(parents=True)
    shutil.copy(BRIDGE, bridge)
    for library in (LIBRARIES / "barcuda-soft").iterdir():
        if "cupti" not in library.name:
            shutil.copy(library, soft)
    region.serve(program=bridge)
    ran = region.client(PROFILER)
    assert ran.status != 0, ran
    assert ran.err.count("the host has no CUPTI for it: install libcupti.so.13 there") == 1, ran
    region.wait_for_log("a client's profiler asks for CUPTI: there is no libcupti.so.13")
