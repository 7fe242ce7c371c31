# SPDX-License-Identifier: Apache-2.0
"""A program that makes mistakes hears through Barcuda what it hears natively: twenty thousand answers beside those that were recorded on a GPU
(native-*.tsv). What differs has its reason in allowed.tsv, or is open, and then in a class of open.tsv. With a GPU `--device cuda` compares with the
machine's own."""
import os
import shutil
from pathlib import Path

import pytest

from e2e.answers import compare
from e2e.flat import BUILD, DEVICE, RUN, needs_soft, run

HERE = Path(__file__).resolve().parent
RECORDED = HERE / "native-h100-580.tsv"
PROGRAM = BUILD / "e2e/answers"


def ask(*command):
    ran = run(*command, env={"ANSWERS_PATIENCE": 60}, patience=580)
    assert ran.status == 0, ran
    return dict(line.split("\t", 1) for line in ran.out.splitlines() if "\t" in line)


@pytest.fixture(scope="module")
def native():
    if DEVICE == "cuda" and shutil.which("nvidia-smi") and os.path.exists("/dev/nvidiactl"):
        return ask(PROGRAM)
    return compare.read(RECORDED)


@pytest.fixture(scope="module")
def outcome(native):
    table = compare.allowances()
    return compare.compare(native, ask(*RUN, PROGRAM), table, DEVICE == "cuda"), table


def test_answers_are_natives_or_have_a_reason(outcome):
    result, _ = outcome
    assert sum(result.asked.values()) >= 20000
    others = result.unexplained
    assert not others, f"{len(others)} answers differ and are in no table:\n" + "\n".join(" | ".join(one[:3]) for one in others[:200])


@needs_soft("a GPU has other answers of its own")
def test_each_line_of_the_tables_is_still_needed(outcome):
    _, table = outcome
    assert [one.question.pattern for one in table if not one.used and one.holds_for(False)] == []


def test_no_table_allows_the_end_of_the_program():
    table = [compare.Allowance(*map(compare.re.compile, (".*", ".*", ".*")), "any")]
    native = {"a/crashes": "0", "a/hangs": "0", "a/exits": "0", "a/missing": "0", "a/both": "crash:11", "a/differs": "0"}
    ours = {"a/crashes": "crash:11", "a/hangs": "hangs", "a/exits": "exit:1", "a/both": "crash:6", "a/differs": "1"}
    assert [one[0] for one in compare.compare(native, ours, table, False).unexplained] == ["a/crashes", "a/hangs", "a/exits", "a/missing"]


def test_the_compilers_number_of_a_file_is_no_difference():
    native, ours = {"a/x": "0 _ZN39_GLOBAL__N__3454fda5_1a", "a/y": "0 _GLOBAL__N__3454fda5_1a"}, {"a/x": "0 _ZN39_GLOBAL__N__c87a40bc_1a", "a/y": "0 b"}
    assert [one[0] for one in compare.compare(native, ours, [], False).differing] == ["a/y"]


def test_the_table_allows_what_it_says_and_nothing_else():
    table = [compare.Allowance(*map(compare.re.compile, ("a/.*", "1", "0")), "why")]
    native, ours = {"a/x": "1", "a/y": "2", "b/x": "1", "a/hw/z": "5", "a/e": "7"}, {"a/x": "0", "a/y": "0", "b/x": "0", "a/hw/z": "6", "a/e": "7"}
    result = compare.compare(native, ours, table, False)
    assert [one[0] for one in result.unexplained] == ["a/y", "b/x"]
    assert result.asked == {"a": 3, "b": 1}
    assert [one[0] for one in compare.compare(native, ours, table, True).unexplained] == ["a/y", "b/x", "a/hw/z"]
