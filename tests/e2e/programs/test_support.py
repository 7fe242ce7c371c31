# SPDX-License-Identifier: Apache-2.0
"""`barcuda support` names the functions that cross to the host, in words and in JSON, each of which the guest library has; and docs/support.md
says of every function of CUDA what is so."""
import json
import os
import re

import pytest

from e2e.flat import BARCUDA, BUILD, LIBRARIES, TOP, need, run, succeed, text_of

HEADER = os.environ.get("CUDA_HOME", "/usr/local/cuda") + "/include/cuda.h"


@pytest.fixture(scope="module")
def rows():
    """(library, how, name) of each function that crosses."""
    return [tuple(line.split()) for line in succeed(BARCUDA, "support").splitlines()]


def test_calls_and_posted_commands_are_named(rows):
    assert ("driver", "call", "cuMemPoolTrimTo") in rows, rows[:3]
    assert ("driver", "post", "cuMemsetD8Async") in rows, rows[:3]
    assert {row[1] for row in rows} <= {"call", "post", "guest"}


def test_words_and_json_say_the_same(rows):
    assert "--json" in succeed(BARCUDA, "support", "--help")
    assert rows == [(row["library"], row["how"], row["name"]) for row in json.loads(succeed(BARCUDA, "support", "--json"))]
    assert len(rows) > 300


def test_the_guest_library_has_each_function_that_crosses(rows):
    need("nm")
    exports = {re.sub("@.*", "", line.split()[-1]) for line in succeed("nm", "-D", "--defined-only", LIBRARIES / "libbarcuda.so").splitlines()}
    missing = [name for library, _, name in rows if library != "Barcuda" and name not in exports]
    assert not missing, missing[:5]


def test_the_page_says_what_is_so():
    need("objdump")
    if not re.search("^#define CUDA_VERSION 13000", text_of(HEADER), re.M):
        pytest.skip(f"docs/support.md is about CUDA 13.0, and {HEADER} is not of it")
    ran = run(TOP / "docs/support.py", "--build", BUILD.relative_to(TOP), "--check")
    assert ran.status == 0, ran
