# SPDX-License-Identifier: Apache-2.0
"""`barcuda run` passes the program's output, input and exit status through, says what is wrong, and leaves nothing behind."""
import os
import shutil

import pytest

from e2e.flat import BARCUDA, LIBRARIES, RUN, run

REFUSED = 125


def test_standard_input_and_output_are_the_programs():
    assert run(*RUN, "cat", input="hello").out == "hello"


@pytest.mark.parametrize("command, status", [("exit 7", 7), ("kill -TERM $$", 143)], ids=["its own", "a signal's"])
def test_the_status_is_the_programs(command, status):
    assert (ran := run(*RUN, "sh", "-c", command)).status == status, ran


def test_a_program_that_is_not_there_is_named():
    ran = run(*RUN, "/no/such/program")
    assert ran.status == 127 and "cannot run /no/such/program" in ran.err, ran


@pytest.mark.parametrize("options, why", [(["--region-size", "300M"], "power of two"), (["--device", "none"], "")], ids=["a size", "a device"])
def test_wrong_options_are_refused(options, why):
    ran = run(*RUN[:-1], *options, "--", "true")
    assert ran.status == REFUSED and why in ran.err, ran


def test_a_path_with_a_space_is_refused_with_what_to_do(scratch):
    place = scratch / "a place"
    for folder in "bin", "lib":
        (place / folder).mkdir(parents=True)
    barcuda = shutil.copy(BARCUDA, place / "bin")
    shutil.copy(LIBRARIES / "libbarcuda.so", place / "lib")
    ran = run(barcuda, "run", "--", "true")
    assert ran.status == REFUSED and "no space" in ran.err, ran


@pytest.mark.parametrize("ends, status", [("true", 0), ("kill -TERM $PPID; exec sleep 60", 143)], ids=["it ends", "SIGTERM, which is the program's"])
def test_the_region_is_gone_afterwards(ends, status):
    ran = run(*RUN, "sh", "-c", f"echo $BARCUDA_REGION; {ends}")
    assert ran.status == status and ran.out.strip(), ran
    assert not os.path.exists(os.path.dirname(ran.out.strip())), f"left behind: {ran.out}"
