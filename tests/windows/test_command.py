# SPDX-License-Identifier: Apache-2.0
"""barcuda.exe: what the command says in a Windows guest, and how it runs a program."""
import json
import re

import pytest

from e2e.flat import BARCUDA, BUILD, needs_soft, until
from windows.under_wine import DLLS, at, client_of, environment, need_built, serving, wine

pytestmark = needs_soft("Windows programs are tried with the software GPU")
COMMAND, WINDOWS = DLLS / "barcuda.exe", BUILD / "windows"
DATE = re.compile(r"^\w{3} \w{3} .*\d{4}$", re.M)

region = pytest.fixture(scope="module")(serving)


def barcuda(region, *words, status=0, errors=False, **more):
    """What it prints. It finds its libraries by itself."""
    need_built(COMMAND)
    variables = client_of(region) | more
    del variables["WINEPATH"]
    return wine(COMMAND, *words, status=status, errors=errors, env=variables)


@pytest.mark.parametrize("words", [[], ["-L"], ["--query-gpu=name,uuid,pci.bus_id,memory.total,compute_cap", "--format=csv"], ["--json"]], ids=str)
def test_smi_prints_what_it_prints_on_linux(region, words):
    said = []

    def the_same():  # between the two a warm worker may come
        theirs, ours = barcuda(region, "smi", *words), region.client(BARCUDA, "smi", *words)
        assert ours.status == 0, ours
        said[:] = DATE.sub("", theirs), DATE.sub("", ours.out)
        return len(theirs) > 50 and said[0] == said[1]
    until(the_same, lambda: "\n".join(said))


def test_smi_names_a_program_that_uses_a_gpu(region):
    program = region.background("waits", "wine", WINDOWS / "lives/waits.exe", env={**client_of(region), "LD_PRELOAD": None, "LD_LIBRARY_PATH": None}, stdin=-1)
    program.wait_for("running")
    said = barcuda(region, "smi", "--query-compute-apps=pid,process_name", "--format=csv,noheader")
    program.end_input()
    program.wait()
    assert re.search(r"^\d+, .*\\waits\.exe$", said, re.M), said


def test_doctor_says_that_all_is_well(region):
    said = barcuda(region, "doctor")
    assert re.search(r"ok +region Z:.*: \d+ MiB at 0x[0-9a-f]+, made by build", said), said
    for found in r"ok +Z:.*nvcuda\.dll", r"ok +a bridge serves it", r"ok +GPU 0: Barcuda software GPU", r"All is well\.":
        assert re.search(found, said), said


def test_doctor_looks_at_each_region_that_is_named(region, tmp_path):
    other = tmp_path / "other"
    other.write_bytes(bytes(1 << 20))
    said = json.loads(barcuda(region, "doctor", "--json", status=1, BARCUDA_REGION=f"{at(other)};{at(region.path)}"))
    states = [(finding["state"], finding["what"]) for finding in said["findings"] if finding["section"] == "What BARCUDA_REGION names"]
    assert ("missing", "a region") in states and ("ok", "a bridge serves it") in states and said["missing"] == 1, said


def test_doctor_says_what_to_do_where_there_is_no_device():
    need_built(COMMAND)
    said = wine(COMMAND, "doctor", status=1, env=environment())
    assert re.search(r"missing +an ivshmem device \(PCI 1AF4:1110\)\n +-> give the VM one", said), said


def test_exec_runs_a_program_with_the_libraries_beside_it(region):
    assert barcuda(region, "exec", WINDOWS / "programs/add_one.exe") == "passed\n"
    barcuda(region, "exec", WINDOWS / "lives/status.exe", "7", status=7)


def test_exec_passes_each_word_on_as_it_is(region):
    words = ["a b", "", 'say "no"', "C:\\folder\\", "C:\\a folder\\", '\\"', "--json", "/x"]
    assert barcuda(region, "exec", WINDOWS / "devices/words.exe", *words).splitlines() == words


def test_exec_says_what_it_cannot_run(region):
    assert "cannot run nowhere.exe" in barcuda(region, "exec", "nowhere.exe", status=127, errors=True)
    assert "PROGRAM is required" in barcuda(region, "exec", status=125, errors=True)
