# SPDX-License-Identifier: Apache-2.0
"""Programs that were linked with the runtime of CUDA 12 and 11 find it here, with the parameters and structures of those days; those that were
linked with cuBLAS of that time too."""
import re

import pytest

from e2e.flat import LIBRARIES, RUN, gxx, nvcc, run, succeed, written

RUNTIMES = ["12", "11.0"]


def major(version):
    return version.partition(".")[0]


@pytest.fixture(scope="module")
def exports():
    """What our libraries export, as `nm` lists it."""
    return succeed("nm", "-D", LIBRARIES / "libbarcuda.so", *(LIBRARIES / "barcuda-libraries").glob("*.so.13"))


def stand_in(folder, exports, library, version):
    """What the linker saw then: the names, as we have them for CUDA 13, under that version, in a library of that name. It is not there when the
    program runs."""
    names = sorted(set(re.findall(rf" (\w+)@@{library}\.so\.13$", exports, re.M)))
    assert names
    place = folder / f"{library}-{version}"
    place.mkdir()
    source = written(place / "names.c", "".join(f"void {name}(void) {{}}\n" for name in names))
    script = written(place / "map", f"{library}.so.{version} {{ global: *; }};\n")
    succeed("gcc", "-shared", "-fPIC", "-w", "-o", place / f"{library}.so", source, f"-Wl,-soname,{library}.so.{version}", f"-Wl,--version-script={script}")
    return [f"-L{place}", f"-l{library.removeprefix('lib')}"]


@pytest.fixture(scope="module", params=RUNTIMES)
def version(request):
    return request.param


@pytest.fixture(scope="module")
def runtime(shared, exports, version):
    """How a program is linked with libcudart of that version."""
    return stand_in(shared, exports, "libcudart", version)


def compiled(output, name):
    return nvcc(output, "-c", "-O2", "-Itests/programs", "-gencode", "arch=compute_75,code=compute_75", f"tests/programs/{name}.cu")


@pytest.fixture(scope="module")
def objects(shared):
    """Compiled once for all versions."""
    made = {}

    def of(name):
        if name not in made:
            made[name] = compiled(shared / f"{name}.o", name)
        return made[name]
    return of


def passes(program):
    ran = run(*RUN, program)
    assert ran.status == 0 and "PASSED" in ran.said, ran


def test_functions_and_structures_are_those_of_that_time(scratch, version, runtime):
    passes(gxx(scratch / "program", "-O1", "-Itests/programs", f"-DCUDA={major(version)}", "tests/e2e/programs/older_runtime.cc", *runtime))


def test_a_kernel_runs_in_a_program_linked_with_that_runtime(scratch, objects, runtime):
    passes(gxx(scratch / "program", objects("vector_add"), *runtime))


def test_cublas_runs_in_a_program_linked_with_that_one(scratch, shared, exports, objects, version, runtime):
    passes(gxx(scratch / "program", objects("blas"), *runtime, *stand_in(shared, exports, "libcublas", major(version))))
