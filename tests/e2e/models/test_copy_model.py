# SPDX-License-Identifier: Apache-2.0
"""Random copies between all kinds of memory, every byte against a model; with room, with threads, and in a full region. COPY_MODEL_SEED is another
seed than the usual one."""
import os

import pytest

from e2e.flat import BUILD, RUN, run

SEED = f"seed={os.environ.get('COPY_MODEL_SEED', 14021)}"
BLOCKS = "--device-memory", "blocks"
HEAP = "BARCUDA_HEAP=always", "BARCUDA_THRESHOLD=0"


@pytest.mark.parametrize("words, options, variables", [
    pytest.param(["steps=3000"], [], [], id="one thread"),
    pytest.param(["steps=800", "threads=4"], [], [], id="four threads"),
    pytest.param(["steps=1000"], [], HEAP, id="a heap that is always on"),
    pytest.param(["steps=500", f"max={64 << 20}"], ["--region-size", "128M"], [], id="a full region"),
    pytest.param(["steps=800", "threads=4"], BLOCKS, [], id="four threads on blocks"),
    pytest.param(["steps=500", f"max={200 << 20}"], BLOCKS, [], id="blocks of several pieces"),
])
def test_every_byte_is_as_the_model_says_with(words, options, variables):
    ran = run(*RUN[:-1], *options, "--", "env", *variables, BUILD / "e2e/copy_model", *words, SEED, patience=300)
    assert ran.status == 0, ran
