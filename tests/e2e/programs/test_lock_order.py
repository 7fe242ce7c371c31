# SPDX-License-Identifier: Apache-2.0
"""No two threads of a program take two locks of ours in contrary orders, and none calls the loader under one: in the programs that use most of
them. (lock_order.cc sees what could come together, not what does.)"""
import re

import pytest

from e2e.flat import BUILD, LIBRARIES, RUN, TOP, gxx, need, run, succeed, written

PROGRAMS = sorted(file.stem for file in (TOP / "tests/programs").glob("*.cu"))
NOTHING_TO_SHOW = 77
WRONG = r"""
#include <dlfcn.h>
#include <mutex>
std::mutex a, b;
extern "C" void contrary() { { std::lock_guard one(a), two(b); } { std::lock_guard one(b), two(a); } }
extern "C" void loads() { std::lock_guard one(a); dlsym(RTLD_DEFAULT, "none"); }
"""


@pytest.fixture(scope="module")
def observer(shared):
    """The library that sees in which orders locks are taken."""
    need("addr2line")
    return gxx(shared / "order.so", "-std=c++20", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", TOP / "tests/e2e/programs/lock_order.cc", "-ldl")


@pytest.fixture(scope="module")
def wrong(shared):
    """A library that does both wrong things."""
    return gxx(shared / "libwrong.so", "-std=c++20", "-fPIC", "-shared", written(shared / "wrong.cc", WRONG))


@pytest.mark.parametrize("what", ["contrary", "loads"])
def test_the_observer_sees_what_is_wrong(observer, wrong, scratch, what):
    source = written(scratch / "main.cc", f'extern "C" void {what}(); int main() {{ {what}(); }}')
    program = gxx(scratch / what, source, f"-L{wrong.parent}", "-lwrong", f"-Wl,-rpath,{wrong.parent}")
    run(program, env={"LD_PRELOAD": observer, "LOCK_ORDER_LIBRARY": "libwrong.so", "LOCK_ORDER_REPORT": scratch / "seen"})
    assert "ERROR" in (seen := (scratch / "seen").read_text()), seen


@pytest.fixture
def look(observer, scratch):
    """Runs a program under the library and beside the observer, which must see locks and nothing wrong."""
    def runs(program, **variables):
        report = scratch / "seen"
        ran = run(*RUN, "sh", "-c", 'LD_PRELOAD="$LD_PRELOAD $0" exec "$@"', observer, BUILD / "programs" / program, patience=300,
                  env={"LOCK_ORDER_LIBRARY": "lib/libbarcuda.so", "LOCK_ORDER_REPORT": report, **variables})
        if ran.status == NOTHING_TO_SHOW:
            pytest.skip(ran.said.strip().splitlines()[-1])
        assert ran.status == 0, ran
        seen = report.read_text()
        assert re.search("^saw", seen, re.M), f"nothing was seen: {seen}"
        assert "ERROR" not in seen, f"{seen}{places(seen)}"
    return runs


def places(seen):
    """The offsets of a report as lines of the source."""
    offsets = sorted(set(re.findall(r"\+(0x[0-9a-f]+)", seen)))
    return succeed("addr2line", "-apiCfe", LIBRARIES / "libbarcuda.so", input="\n".join(offsets))


@pytest.mark.parametrize("name, value", [("BARCUDA_HEAP", "auto"), ("BARCUDA_HEAP", "always"), ("BARCUDA_THRESHOLD", "0")])
def test_bystanders_take_locks_in_one_order(look, name, value):
    look("bystanders", **{name: value})


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_takes_locks_in_one_order(look, program):
    look(program)


def test_a_logged_program_takes_locks_in_one_order(look):
    look("launch_errors", BARCUDA_LOG="debug")


def test_a_traced_program_takes_locks_in_one_order(look, scratch):
    look("nvtx", BARCUDA_TRACE=scratch / "trace")
