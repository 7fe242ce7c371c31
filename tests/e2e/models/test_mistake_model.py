# SPDX-License-Identifier: Apache-2.0
"""Random programs that make mistakes with memory on purpose, and hear natively's answers (tests/e2e/answers), whatever came before.
MISTAKE_MODEL_SEED is the first of the seeds, MISTAKE_MODEL_PROGRAMS their number. Many are short ones, a hundred in one process: most of the time of
a program alone is the start of its bridge and its worker."""
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
    for question, answer in compare.read(RECORDED).items():
        code = answer.replace("/", " ").partition(" ")[0]
        if not question.startswith(GROUPS) or not code.isdigit() or "later" in answer:
            continue
        if not any(one.question.fullmatch(question) and one.native.fullmatch(answer) for one in allowed):
            answers[question] = code
    assert len(answers) > 3000
    return "".join(f"{question}\t{code}\n" for question, code in answers.items())


IN_A_PROCESS = 100


def programs():
    """The words for each run. Known seeds are long programs, as few others are."""
    if PROGRAMS < IN_A_PROCESS:
        return [("steps=3000", f"seed={seed}") for seed in range(FIRST, FIRST + PROGRAMS)]
    return [("steps=300", f"seed={seed}", f"programs={IN_A_PROCESS}") for seed in range(FIRST, FIRST + PROGRAMS, IN_A_PROCESS)]


# 7026 frees managed memory that was freed before, at the beginning of a range, while a stream captures. 20003 and 20008 name memory that was freed in a
# stream's order, which the GPU has done and the driver, until a thread waits for it, not yet. 20023 differed once on the software GPU.
@pytest.mark.parametrize("words", [*programs(), *(("steps=3000", f"seed={seed}") for seed in (7026, 20003, 20008, 20023))], ids=" ".join)
def test_mistakes_are_heard_as_natively_in(table, words):
    model = run(*RUN, BUILD / "e2e/mistake_model", *words, input=table)
    assert model.status == 0 and "PASSED" in model.out, model
