# SPDX-License-Identifier: Apache-2.0
"""A random program on managed memory, every byte against a model: alone, with several threads, where it stays in the region, in a region with no
room to spare, and on a device whose streams share queues. MANAGED_MODEL_SEED is another seed than the usual one."""
import os

import pytest

from e2e.flat import BUILD, RUN, run

SEED = f"seed={os.environ.get('MANAGED_MODEL_SEED', 14021)}"


@pytest.mark.parametrize("words, options, bridges, programs", [
    pytest.param(["steps=2000", SEED, "threads=1"], [], {}, [], id="one thread"),
    pytest.param(["steps=1000", SEED, "threads=5"], [], {}, [], id="five threads"),
    pytest.param(["steps=500", SEED, "threads=1", "turns=1"], [], {}, [], id="one thread whose kernels and CPU take turns"),
    pytest.param(["steps=150", SEED, "threads=3", "turns=1"], [], {}, [], id="three threads whose kernels and CPUs take turns"),
    pytest.param(["steps=300", "seed=22", "threads=5"], [], {"BARCUDA_SOFT_QUEUES": 2}, [], id="five threads and streams that share two queues"),
    pytest.param(["steps=1000", SEED, "threads=2"], [], {}, ["BARCUDA_MANAGED=host"], id="memory that stays in the region"),
    pytest.param(["steps=1000", SEED, "threads=1", "max=3000"], [], {}, [], id="small memory"),
    pytest.param(["steps=500", SEED, "threads=1"], ["--region-size", "128M"], {}, [], id="a small region"),
    pytest.param(["steps=500", SEED, "threads=5"], ["--device-memory", "blocks"], {}, [], id="five threads beside blocks"),
])
def test_every_byte_is_as_the_model_says_with(words, options, bridges, programs):
    """`bridges` and `programs`: variables of either."""
    ran = run(*RUN[:-1], *options, "--", "env", *programs, BUILD / "e2e/managed_model", *words, env=bridges, patience=300)
    assert ran.status == 0, ran
