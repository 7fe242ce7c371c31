# SPDX-License-Identifier: Apache-2.0
"""A program that makes mistakes hears through Barcuda what it hears natively: twenty thousand answers beside those that were recorded on a GPU
(native-*.tsv). What differs has its reason in allowed.tsv. With a GPU `--device cuda` compares with the machine's own."""
import os
import shutil
from pathlib import Path

import pytest

from e2e.answers import compare
from e2e.flat import BUILD, DEVICE, RUN, run

HERE = Path(__file__).resolve().parent
RECORDED = HERE / "native-h100-580.tsv"
PROGRAM = BUILD / "e2e/answers"
# Of all questions: equal, or allowed with a reason.
LEAST = {"soft": 0.98, "cuda": 0.995}


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
    total = sum(result.asked.values())
    assert total >= 4000
    others = result.unexplained
    assert 1 - len(others) / total >= LEAST[DEVICE], f"{len(others)} of {total}:\n" + "\n".join(" | ".join(one[:3]) for one in others[:200])


def test_no_question_ends_the_program_that_did_not_natively(outcome):
    result, _ = outcome
    ends = [one[:3] for one in result.unexplained if one[2].startswith(("crash", "hangs", "exit"))]
    assert not ends


def test_the_table_allows_what_it_says_and_nothing_else():
    table = [compare.Allowance(*map(compare.re.compile, ("a/.*", "1", "0")), "why")]
    native, ours = {"a/x": "1", "a/y": "2", "b/x": "1", "a/hw/z": "5", "a/e": "7"}, {"a/x": "0", "a/y": "0", "b/x": "0", "a/hw/z": "6", "a/e": "7"}
    result = compare.compare(native, ours, table, False)
    assert [one[0] for one in result.unexplained] == ["a/y", "b/x"]
    assert result.asked == {"a": 3, "b": 1}
    assert [one[0] for one in compare.compare(native, ours, table, True).unexplained] == ["a/y", "b/x", "a/hw/z"]
