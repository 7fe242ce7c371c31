# SPDX-License-Identifier: Apache-2.0
"""--worker-wrapper: a program of the user's runs each worker, sees it end by itself, and may take its time then. What goes wrong with the
wrapper is said, and leaves no process behind."""
import re
import signal

import pytest

from e2e.flat import BUILD, RUN, has_ended, run, text_of, until, written

VECTOR_ADD = BUILD / "programs/vector_add"


def run_wrapped(wrapper, *command):
    return run(*RUN[:-1], "--worker-wrapper", wrapper, "--", *command)


class Wrapper:
    """As a profiler does it: the worker is its child, and it writes a report in the end."""

    def __init__(self, folder):
        self.log_file = folder / "wrapped"
        program = written(folder / "wrap", f"""#!/bin/bash
echo "begun: $1" >> {self.log_file}; shift
"$@" & worker=$!
echo "worker $worker" >> {self.log_file}
wait $worker
echo "ended: $?" >> {self.log_file}
""")
        program.chmod(0o755)
        self.option = f"{program} 'two words'"

    @property
    def log(self):
        return text_of(self.log_file)

    def has_ended(self, times):
        """So many workers were wrapped, and each ended by itself."""
        lines = self.log.splitlines()
        assert lines.count("begun: two words") == times and lines.count("ended: 0") == times, f"not {times} but: {self.log}"


@pytest.fixture
def wrapper(scratch):
    return Wrapper(scratch)


def test_barcuda_run_waits_for_the_report(wrapper):
    ran = run_wrapped(wrapper.option, VECTOR_ADD)
    assert "PASSED" in ran.out, ran
    wrapper.has_ended(1)


def test_a_program_that_becomes_the_worker_is_a_wrapper():
    assert "PASSED" in run_wrapped("env", VECTOR_ADD).out


def test_what_kernels_print_comes_through(wrapper):
    ran = run_wrapped(wrapper.option, BUILD / "programs/prints")
    assert ran.status == 0, ran
    ran = run_wrapped(wrapper.option, BUILD / "e2e/asserts", "look")
    assert re.search("Assertion .* failed", ran.said), ran
    wrapper.has_ended(2)


def test_each_client_of_a_bridge_has_a_wrapper_and_none_comes_before_its_client(region, wrapper):
    region.serve("--no-vm", "--worker-wrapper", wrapper.option)
    assert not wrapper.log, "a worker waits for a client"
    for _ in range(2):
        assert "PASSED" in region.client(VECTOR_ADD).out
    region.start("victim", BUILD / "e2e/endless").kill()
    until(lambda: len(re.findall("^ended", wrapper.log, re.M)) == 3, lambda: f"three workers end: {wrapper.log}")
    wrapper.has_ended(3)
    region.wait_for_log(r"channel \d+: reclaimed", 3)
    client = region.start("other", BUILD / "e2e/endless")
    region.stop()
    client.wait()
    wrapper.has_ended(4)


def test_a_worker_does_not_outlive_its_bridge(region, wrapper):
    region.serve("--no-vm", "--worker-wrapper", wrapper.option)
    client = region.start("client", BUILD / "e2e/endless")
    worker = int(re.search(r"^worker (\d+)$", wrapper.log, re.M)[1])
    region.bridge.kill(signal.SIGKILL)
    client.wait()
    until(lambda: has_ended(worker), "the worker ends")


def test_a_wrapper_that_is_not_there_is_refused(wrapper):
    ran = run_wrapped("no-such-profiler --all", "true")
    assert ran.status == 125 and "worker-wrapper 'no-such-profiler --all': there is no such program" in ran.err, ran


@pytest.mark.parametrize("wrong, reason", [
    ("sh -c 'exit 3'", "the worker in its wrapper (sh -c 'exit 3') ended with status 3"),
    ("sh -c 'kill -9 $$'", "was killed by signal 9"),
    ("sh -c 'exec 4>&-; exec \"$@\"' sh", "descriptors 3 to 9 are not the bridge's: the wrapper must leave them open"),
], ids=["ends", "is killed", "closes descriptors"])
def test_a_program_is_told_and_ends_if_its_wrapper(wrong, reason):
    ran = run_wrapped(wrong, VECTOR_ADD)
    assert ran.status != 0 and reason in ran.said, ran
