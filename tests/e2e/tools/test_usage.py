# SPDX-License-Identifier: Apache-2.0
"""A person who types a command wrongly is told the nearest right word, in one sentence, with a status that is not a program's; help is
there without asking; `doctor` says at once what is not served, looks at a host as a host, and can be read by programs."""
import json
import os
import signal
from pathlib import Path

import pytest

from e2e.flat import BARCUDA, BRIDGE, BUILD, RUN, run, succeed, until

# Bridges of other tests stand still, too.
pytestmark = pytest.mark.usefixtures("own_shm")
# As env, docker and others have it, where a program's own status would be.
NOT_THE_PROGRAMS = 125


def wrong(status, words, *command):
    """On standard error, beside where help is."""
    ran = run(*command)
    assert ran.status == status and ran.out == "", ran
    assert words in ran.err and ran.err.count("\n") == 2 and ran.err.endswith("--help` shows the usage\n"), ran
    return ran.err


@pytest.mark.parametrize("how", ["run", "stats"])
def test_wrong_words_of_commands_that_start_programs_have_a_status_of_their_own(how):
    wrong(NOT_THE_PROGRAMS, "gpu not in {auto,cuda,soft}", BARCUDA, how, "--device", "gpu", "--", "true")
    wrong(NOT_THE_PROGRAMS, "PROGRAM is required", BARCUDA, how)
    wrong(NOT_THE_PROGRAMS, "there is no such option; did you mean --device?", BARCUDA, how, "--devcie", "soft", "true")
    wrong(NOT_THE_PROGRAMS, f"barcuda {how}: --frobnicate: there is no such option", BARCUDA, how, "--frobnicate", "true")


def test_exec_without_a_program_is_refused():
    wrong(NOT_THE_PROGRAMS, "PROGRAM is required", BARCUDA, "exec")


def test_a_programs_own_status_is_that_of_run():
    assert run(*RUN, "sh", "-c", "exit 2").status == 2


def test_the_nearest_right_word_is_named():
    wrong(2, "barcuda: lmit: there is no such command; did you mean limit?", BARCUDA, "lmit")
    wrong(2, "barcuda: dcotor: there is no such command; did you mean doctor?", BARCUDA, "dcotor")
    wrong(2, "barcuda guest: enabel: there is no such command; did you mean enable?", BARCUDA, "guest", "enabel")
    wrong(2, "barcuda smi: --jsn: there is no such option; did you mean --json?", BARCUDA, "smi", "--jsn")
    wrong(2, "barcuda-bridge: --regoin: there is no such option; did you mean --region?", BRIDGE, "--regoin", "region")
    wrong(2, "barcuda-exporter: --listne: there is no such option; did you mean --listen?", BUILD / "bin/barcuda-exporter", "--listne", "x")
    wrong(2, "barcuda: list: there is no such command; `barcuda ps` lists bridges", BARCUDA, "list")
    wrong(2, "barcuda: stop: there is no such command; `barcuda bridge stop NAME`", BARCUDA, "stop")


def test_no_word_is_named_that_is_not_near():
    assert "did you mean" not in wrong(2, "barcuda: frobnicate: there is no such command", BARCUDA, "frobnicate")


@pytest.mark.parametrize("seconds", ["never", "nan", "-nan", "inf", "0", "0.09", "3601"])
def test_an_interval_is_a_number_of_seconds(seconds):
    wrong(2, "a number of seconds from 0.1 to 3600", BARCUDA, "top", f"--interval={seconds}")


def test_help_is_there():
    assert "\nSubcommands:" in succeed(BARCUDA)
    for command in [], ["ps"], ["top"], ["metrics"], ["doctor"], ["smi"], ["limit"], ["run"]:
        assert "\nUsage" in "\n" + succeed(BARCUDA, *command, "--help")


def test_help_is_a_command_as_other_programs_have_it():
    for command in [], ["run"], ["guest"], ["guest", "enable"]:
        ran = run(BARCUDA, "help", *command)
        assert ran.status == 0 and ran.said == succeed(BARCUDA, *command, "--help"), ran
    assert "\nSubcommands:" in run(BARCUDA, "help", "--help").out
    wrong(2, "barcuda help: lmit: there is no such command; did you mean limit?", BARCUDA, "help", "lmit")
    wrong(2, "barcuda help: enabel: there is no such command; did you mean enable?", BARCUDA, "help", "guest", "enabel")


def test_a_region_that_nobody_named_and_no_bridge_made_is_not_there():
    if Path("/dev/shm/barcuda").exists():
        pytest.skip("/dev/shm/barcuda is there")
    ran = run(BARCUDA, "limit")
    assert ran.status == 1 and ran.said.startswith("barcuda limit: /dev/shm/barcuda: there is no such region; --region"), ran


# ---- doctor -----------------------------------------------------------------------------------------------------------------------
NOBODY = ("missing", "a bridge: none serves this region")


class Diagnosis:
    """What `barcuda doctor --json` says of a region, and that its status agrees with it."""

    def __init__(self, region):
        ran = run(BARCUDA, "doctor", "--json", env=region.named)
        self.all = json.loads(ran.out)
        self.findings = [(finding["state"], finding["what"]) for finding in self.all["findings"]]
        assert ran.status == (1 if self.all["missing"] else 0), ran

    def silent(self):
        return any(state == "missing" and "silent" in what for state, what in self.findings)


def test_doctor_finds_a_bridge_that_serves(region):
    bridge = region.serve("--no-vm", "--name", f"usage-{os.getpid()}")
    found = Diagnosis(region)
    assert ("ok", "a bridge serves it") in found.findings and found.all["missing"] == 0, found.all
    assert any(what.startswith(f"bridge usage-{os.getpid()} (pid {bridge.proper}) serves ") for _, what in found.findings), found.all
    assert found.all["as"] == "host" and not any("uio_barcuda" in what for _, what in found.findings), found.all
    assert any(measure["name"] == "core" for measure in found.all["cage"]), found.all


def test_doctor_finds_a_bridge_that_stands_still(region):
    region.serve("--no-vm").stand_still()
    found = Diagnosis(region)
    assert found.silent() and found.all["missing"] == 2, found.all


def test_doctor_finds_a_bridge_that_was_killed(region):
    region.serve("--no-vm").kill()

    def found_none():
        found = Diagnosis(region)
        assert found.silent() or NOBODY in found.findings, found.all
        return NOBODY in found.findings
    until(found_none, "the workers of a killed bridge release its lock")
    ran = run(BARCUDA, "doctor", env=region.named)
    assert ran.status == 1 and "\n  missing  a bridge: none serves this region\n" in ran.out and "\x1b" not in ran.out, ran
    # So says a program, at once and in one sentence.
    ran = region.client(BUILD / "programs/vector_add")
    assert ran.status != 0 and ran.err.count("barcuda: ") == 1, ran
    assert "no bridge serves this region; start barcuda-bridge on the host" in ran.err, ran


def test_doctor_finds_a_bridge_that_has_ended(region):
    region.serve("--no-vm")
    region.stop()
    found = Diagnosis(region)
    assert NOBODY in found.findings and found.all["missing"], found.all
