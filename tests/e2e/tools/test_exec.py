# SPDX-License-Identifier: Apache-2.0
"""`barcuda exec`: a program in a guest, by its own name and with no variable set by hand; its status is the program's, and what is wrong with
starting it is told as by other commands that start programs."""
import os
import re
import signal

import pytest

from e2e.flat import BARCUDA, BUILD, run

VECTOR_ADD = BUILD / "programs/vector_add"
NOWHERE = "/nowhere"


@pytest.fixture
def execute(region):
    """`barcuda exec` in a guest. There is no device of a VM here, so the environment names the region."""
    region.serve()
    return lambda *command, **variables: run(BARCUDA, "exec", *command, env={**region.named, **variables})


def test_a_program_runs_by_its_path_and_by_its_name(execute, region):
    for ran in execute(VECTOR_ADD), execute("--", VECTOR_ADD.name, PATH=f"{os.environ['PATH']}:{VECTOR_ADD.parent}"):
        assert ran.status == 0 and re.search("^PASSED", ran.out, re.M), ran
    region.wait_for_log("channel 0: client admitted")


@pytest.mark.parametrize("command, status", [(["sh", "-c", "exit 7"], 7), (["sh", "-c", "kill $$"], -signal.SIGTERM), (["no-such-program"], 127),
                                             (["/etc/passwd"], 126)], ids=["its own", "a signal's", "no program", "no right to run it"])
def test_the_status_is_the_programs_or_says_why_it_did_not_start(execute, command, status):
    ran = execute("--", *command)
    assert ran.status == status, ran
    if status == 127:
        assert "barcuda exec: cannot run no-such-program: No such file" in ran.err, ran


def test_a_programs_options_are_its_own_and_libraries_of_the_users_stay_behind_ours(execute):
    ran = execute("sh", "-c", 'echo "$LD_LIBRARY_PATH" "$1"', "sh", "--help", LD_LIBRARY_PATH=NOWHERE)
    assert ran.out.endswith(f"/barcuda:{NOWHERE} --help\n"), ran
