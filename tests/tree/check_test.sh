#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# tests/check counts honestly: a program, or a file of pytest's, that crashes, hangs, leaves early, or cannot even list its tests; and what a
# filter and JUnit's file hold.
set -eu
folder=$(mktemp -d) && trap 'rm -rf "$folder"' EXIT
cat > "$folder/crash.cc" <<'END'
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

static const char* how = std::getenv("HOW") ? std::getenv("HOW") : "";
static bool is(const char* word) { return !std::strcmp(how, word); }
static struct AtTheEnd {
    bool matters = false;
    ~AtTheEnd() {
        if (matters && is("late")) _exit(3);
        if (!matters || !(is("lsan") || (is("lsan once") && std::remove(std::getenv("ONCE")) == 0))) return;
        std::puts("==7==LeakSanitizer has encountered a fatal error."), std::fflush(stdout), _exit(1);
    }
} at_the_end;

TEST(Some, Pass) { at_the_end.matters = true; }
TEST(Some, Break) {
    std::printf("half a line"), std::fflush(stdout);
    if (is("crash")) std::abort();
    if (is("hang")) pause();
    if (is("leave")) std::exit(0);
    EXPECT_FALSE(is("fail")) << "was told to";
}
TEST(Some, Skip) { GTEST_SKIP() << "always"; }
TEST(Some, DISABLED_Never) { FAIL(); }
class Each : public testing::TestWithParam<int> {};
TEST_P(Each, Passes) { EXPECT_GT(GetParam(), 0); }
INSTANTIATE_TEST_SUITE_P(Of, Each, testing::Values(1, 2));

int main(int argc, char** argv) {
    if (is("mute")) std::abort();
    testing::InitGoogleTest(&argc, argv);
    return RUN_ALL_TESTS();
}
END
${CXX:-g++} -std=c++20 -o "$folder/crash_test" "$folder/crash.cc" -lgtest -pthread
printf '#!/bin/sh\necho "skipped: nothing"\nexit 77\n' > "$folder/nothing_test.sh"
printf '#!/bin/sh\nexit 5\n' > "$folder/five_test.sh"
chmod +x "$folder"/*.sh

# check HOW STATUS TOTALS [WORDS...] -- ARGUMENTS...: what tests/check says of the program that is told to do so
check() {
    local how=$1 status=$2 got=0 words=("$3")
    shift 3
    while [ "$1" != -- ]; do words+=("$1"); shift; done
    shift
    HOW=$how tests/check "$@" > "$folder/out" 2>&1 || got=$?
    for word in "${words[@]}"; do
        grep -qF -- "$word" "$folder/out" || { echo "HOW=$how tests/check $*: no '$word' in"; cat "$folder/out"; exit 1; }
    done
    [ "$got" = "$status" ] || { echo "HOW=$how tests/check $*: status $got, not $status"; cat "$folder/out"; exit 1; }
    echo "$how: $(tail -n 1 "$folder/out")"
}
program=$folder/crash_test
check well 0 '4 passed, 0 failed, 1 skipped' -- "$program"
check fail 1 '3 passed, 1 failed, 1 skipped' 'was told to' 'Some.Break: failed' -- "$program"
check crash 1 '1 passed, 4 failed, 0 skipped' 'Some.Break: ended by SIGABRT' 'Of/Each.Passes/1: did not run' -- "$program"
check hang 1 '1 passed, 4 failed, 0 skipped' 'Some.Break: ended after 5 s' 'Some.Skip: did not run' -- "$program" --limit 5
check leave 1 '1 passed, 4 failed, 0 skipped' 'Some.Break: ended with status 0' 'Some.Skip: did not run' -- "$program"
check late 1 '4 passed, 1 failed, 1 skipped' 'exit: ended with status 3' -- "$program"
# Where LeakSanitizer itself falls, once more; and then it counts.
export ONCE=$folder/once
touch "$ONCE"
check 'lsan once' 0 '4 passed, 0 failed, 1 skipped' 'crash_test runs again' -- "$program"
check lsan 1 '4 passed, 1 failed, 1 skipped' 'exit: ended with status 1: ==7==LeakSanitizer' 'crash_test runs again' -- "$program"
check mute 1 '0 passed, 1 failed, 0 skipped' 'lists no tests' -- "$program"
check well 1 '0 passed, 0 failed, 1 skipped' -- "$folder/nothing_test.sh"
check well 1 '4 passed, 1 failed, 2 skipped' 'five_test.sh: ended with status 5' -- "$program" "$folder"/*_test.sh

# pytest's files count test by test.
cat > "$folder/test_some.py" <<'END'
import os
import signal

import pytest

HOW = os.environ.get("HOW")
if HOW == "mute":
    raise RuntimeError("cannot be read")


def test_passes():
    pass


def test_breaks():
    print("half a line", end="")
    if HOW == "crash":
        os.kill(os.getpid(), signal.SIGABRT)
    if HOW == "hang":
        signal.pause()
    if HOW == "leave":
        os._exit(0)
    assert HOW != "fail", "was told to"


def test_is_skipped():
    pytest.skip("something is missing")


@pytest.fixture
def given():
    yield
    assert HOW != "late", "left something behind"


@pytest.mark.parametrize("n", [1, 2])
def test_passes_with(n, given):
    assert n
END
if HOW=well tests/check "$folder/test_some.py" | grep -q 'apt-get install python3-pytest'; then
    echo "skipped: pytest is not installed"
    exit 77
fi
file=$folder/test_some.py
check well 0 '4 passed, 0 failed, 1 skipped' 'ok      test_some.py  4 passed, 1 skipped' 'skipped: something is missing' -- "$file"
check fail 1 '3 passed, 1 failed, 1 skipped' 'was told to' 'half a line' 'test_some.py test_breaks: an expectation' -- "$file"
check crash 1 '1 passed, 4 failed, 0 skipped' 'test_breaks: ended by SIGABRT' 'test_passes_with[2]: did not run' -- "$file"
check hang 1 '1 passed, 4 failed, 0 skipped' 'test_breaks: ended after 5 s' 'test_is_skipped: did not run' -- "$file" --limit 5
check leave 1 '1 passed, 4 failed, 0 skipped' 'test_breaks: ended with status 0' -- "$file"
check late 1 '2 passed, 2 failed, 1 skipped' 'left something behind' -- "$file"
check mute 1 '0 passed, 1 failed, 0 skipped' 'RuntimeError: cannot be read' 'exit: ended with status' -- "$file"
check crash 0 '2 passed, 0 failed, 0 skipped' -- --filter 'test_some.py::test_passes_with' "$file"
check crash 1 "no test's name has" -- --filter 'Nowhere' "$file"

# A filter takes single tests, of programs and of scripts.
check crash 0 '2 passed, 0 failed, 0 skipped' -- --filter 'crash_test/.*Each' "$program" "$folder"/*_test.sh
check well 1 '1 passed, 1 failed, 0 skipped' -- --filter 'Some.Pass|five_test' "$program" "$folder"/*_test.sh
check well 1 "no test's name has" -- --filter Nowhere "$program"

# JUnit's file has the same counts, and the output of what failed.
check crash 1 '2 passed, 9 failed, 1 skipped' -- --junit "$folder/junit.xml" "$program" "$file" "$folder"/*_test.sh
python3 - "$folder/junit.xml" <<'END'
import sys
from xml.etree import ElementTree
root = ElementTree.parse(sys.argv[1])
assert [len(root.findall(f".//{tag}")) for tag in ("testcase", "failure", "skipped")] == [12, 9, 1]
suites = {suite.get("name"): suite for suite in root.iter("testsuite")}
assert [suites["crash_test"].get(key) for key in ("tests", "failures", "skipped")] == ["5", "4", "0"]
broken = suites["crash_test"].find("testcase[@name='Break']")
assert broken.get("classname") == "crash_test.Some"
assert broken.find("failure").get("message") == "ended by SIGABRT" and broken.find("failure").text == "half a line"
assert [case.get("name") for case in suites["test_some.py"]] == ["test_passes", "test_breaks", "test_is_skipped", "test_passes_with[1]", "test_passes_with[2]"]
END
