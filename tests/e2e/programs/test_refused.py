# SPDX-License-Identifier: Apache-2.0
"""A function that is refused says once which it is, why, and what to do instead, in the words of docs/support.md, and so does the log of errors
each time; the program gets the error that says so."""
import pytest

from e2e.flat import BUILD, RUN, TOP, run

SAYING = ["cuDeviceGetLuid", "cuMulticastGetGranularity", "cuCheckpointProcessLock", "cudaDeviceGetNvSciSyncAttributes", "cuImportExternalMemory"]
ANSWERING = [*SAYING[:-1], "cudaImportExternalMemory"]


@pytest.fixture(scope="module")
def refused():
    ran = run(*RUN, BUILD / "e2e/refused")
    assert ran.status == 0, ran
    return ran


@pytest.mark.parametrize("name", SAYING)
def test_a_refused_function_says_why_and_what_to_do_in_the_words_of_the_page(refused, name):
    beginning = f"barcuda: {name}: not supported: "
    said = [line.removeprefix(beginning) for line in refused.err.splitlines() if line.startswith(beginning)]
    assert len(said) == 1, refused
    why, = said
    assert ";" in why, f"it does not say what to do instead: {why}"
    page = " ".join((TOP / "docs/support.md").read_text().split())
    assert f"- **{why[0].upper()}{why[1:]}.** " in page, f"docs/support.md does not say: {why}"
    assert refused.out.splitlines().count(f"heard {name}: not supported: {why}") == 2, f"the log of errors: {refused}"


@pytest.mark.parametrize("name", ANSWERING)
def test_a_refused_function_answers_that_it_is_not_supported(refused, name):
    assert refused.out.splitlines().count(f"{name} answers 801") == 2, refused
