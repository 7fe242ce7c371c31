# SPDX-License-Identifier: Apache-2.0
"""Random programs that make mistakes with memory on purpose, and hear natively's answers (tests/e2e/answers), whatever came before.
MISTAKE_MODEL_SEED is the first of the seeds, MISTAKE_MODEL_PROGRAMS their number: 100000 run for hours, on their own."""
import os

import pytest

from e2e.answers import compare
from e2e.answers.test_answers import RECORDED
from e2e.flat import BUILD, RUN, needs_soft, run

pytestmark = needs_soft("the table is of the software GPU's answers too")
FIRST = int(os.environ.get("MISTAKE_MODEL_SEED", "61"))
PROGRAMS = int(os.environ.get("MISTAKE_MODEL_PROGRAMS", "4"))
GROUPS = ("filling/", "freeing/", "driver_copies/", "stream_memory/")


@pytest.fixture(scope="module")
def table():
    """Native answers that are one code, also if a later call would say it: those that may be other ones here are left out."""
    allowed, answers = compare.allowances(), {}
    for question, answer in (pair for file in RECORDED for pair in compare.read(file).items()):
        code = answer.replace("/", " ").partition(" ")[0]
        if not question.startswith(GROUPS) or not code.isdigit() or "later" in answer:
            continue
        if not any(one.question.fullmatch(question) and one.native.fullmatch(answer) for one in allowed):
            answers[question] = code
    assert len(answers) > 3000
    return "".join(f"{question}\t{code}\n" for question, code in answers.items())


# 7026 frees managed memory that was freed before, at the beginning of a range, while a stream captures. 20003 and 20008 name memory that was freed in a
# stream's order, which the GPU has done and the driver, until a thread waits for it, not yet.
@pytest.mark.parametrize("seed", [*range(FIRST, FIRST + PROGRAMS), 7026, 20003, 20008])
def test_mistakes_are_heard_as_natively_in(table, seed):
    model = run(*RUN, BUILD / "e2e/mistake_model", "steps=3000", f"seed={seed}", input=table)
    assert model.status == 0 and "PASSED" in model.out, model
