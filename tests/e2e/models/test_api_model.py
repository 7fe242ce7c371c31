# SPDX-License-Identifier: Apache-2.0
"""Random programs of streams, events, graphs, host functions, memory, threads and forks, each thing in its turn; two at once, with a heap that is
always on, and in a full region. Nothing may stand still: a hang is a failure. API_MODEL_SEED is another seed than the usual one."""
import os
import re

import pytest

from e2e.flat import BUILD, RUN, Program

SEED = f"seed={os.environ.get('API_MODEL_SEED', 25360)}"


def begin(folder, name, *words, options=(), variables=()):
    """A model in a region of its own."""
    return Program(folder, name, [*RUN[:-1], *options, "--", "env", *variables, BUILD / "e2e/api_model", *words, SEED])


def passes(model):
    """It ends, and each line that its kernels said has come out."""
    try:
        assert model.wait() == 0, model
    finally:
        model.kill()
    said = len(re.findall("^said$", model.out + model.log, re.M))
    assert f" {said} lines said" in model.out, f"{said} lines came out: {model}"


@pytest.mark.parametrize("words", [["steps=3000"], ["steps=700", "threads=8"]], ids=["one thread", "eight threads"])
def test_all_things_come_in_their_turn_in(scratch, words):
    passes(begin(scratch, "model", *words))


def test_all_things_come_in_their_turn_on_blocks(scratch):
    passes(begin(scratch, "model", "steps=700", "threads=8", options=["--device-memory", "blocks"]))


def test_all_things_come_in_their_turn_with_a_heap_that_is_always_on_beside_a_full_region(scratch):
    heap = begin(scratch, "heap", "steps=800", "threads=3", variables=["BARCUDA_HEAP=always", "BARCUDA_THRESHOLD=0"])
    try:
        passes(begin(scratch, "full", "steps=600", "threads=4", options=["--region-size", "128M"]))
        passes(heap)
    finally:
        heap.kill()
