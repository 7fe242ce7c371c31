# SPDX-License-Identifier: Apache-2.0
"""One statement a line, and lines of at most 120 columns, in the sources of C++. A folder in `later` is not there yet: the list is meant to
shrink, and a folder that has become clean leaves it."""
import subprocess
from pathlib import Path

import pytest

from tree.statements import Source

TOP = Path(__file__).resolve().parents[2]
later = set("""
base base/cli base/os guest-allocator/client guest-allocator/driver guest-allocator/driver/managed
guest-allocator/driver/managed/mechanism guest-allocator/driver/managed/state guest-allocator/heap guest-allocator/heap/registered
guest-allocator/libraries guest-allocator/nvml guest-allocator/pmem guest-allocator/runtime host-bridge/between host-bridge/bridge
host-bridge/cli host-bridge/keeper host-bridge/monitor host-bridge/worker/session shm-device shm-device/cuda shm-device/kinds
shm-device/queue shm-device/region shm-device/rows tests/bench tests/e2e/install tests/e2e/models tests/e2e/programs tests/e2e/trust
tests/fuzz tests/heap tests/hostile tests/soft tests/soft/kernels tests/unit/base tests/unit/between tests/unit/bridge tests/unit/cage
tests/unit/cli tests/unit/guest tests/unit/heap tests/unit/kubernetes tests/unit/queue tests/unit/region tests/unit/runtime
tests/unit/soft-gpu tests/unit/support tests/unit/worker tests/vm
""".split())
FOLDERS = {}
for file in sorted(file for top in ("base", "guest-allocator", "guest-uio", "host-bridge", "shm-device", "soft-gpu", "tests")
                   for kind in ("cc", "h") for file in (TOP / top).rglob(f"*.{kind}")):
    FOLDERS.setdefault(str(file.parent.relative_to(TOP)), []).append(file)


def findings(folder):
    for file in FOLDERS[folder]:
        name, text = file.relative_to(TOP), file.read_text()
        for number, line in enumerate(text.splitlines(), 1):
            if len(line) > 120:
                yield f"{name}:{number}: {len(line)} columns"
        for number in Source(text).lines():
            yield f"{name}:{number}: statements parted by a comma: write each on a line of its own"


@pytest.mark.parametrize("folder", sorted(set(FOLDERS) - later))
def test_a_statement_has_its_own_line_of_120_columns(folder):
    assert "\n".join(findings(folder)) == ""


@pytest.mark.parametrize("folder", sorted(later))
def test_a_clean_folder_leaves_the_list(folder):
    assert any(findings(folder)), f"{folder} is clean: take it out of `later`"


@pytest.mark.parametrize("code", [
    "a = b, c = d;", "if (x) f(), g();", "return errno = y, x;", "for (int i = 0; i < 3; ++i) f(i), g(i);", "else ++a, b();",
    "run([&] { return ++asked, false; });", "case 1: return *to = 2, ok;", "bool f() { return is(c) && (take(), true); }",
    "struct S { void f() { a = 1, b = 2; } };"])
def test_a_comma_between_statements_is_found(code):
    assert Source(code).found


@pytest.mark.parametrize("code", [
    "int a = 1, b = 2;", "f(a, b);", "for (; i < n; ++i, ++j) f();", "std::map<int, char> m;", "return map<A, B>{a, b};", "X(a, (int b, char c), b)",
    "S s{a, b};", "enum { a, b };", "struct stat a {}, b {};", "S() : a_(1), b_{2} {}", "#define X(a) a, b;", "auto [a, b] = f();",
    "return is_same<T, A> || is_same<T, B>;",
    "return f.template operator()<when<sizeof(T) == sizeof(R), T>, R>();", "(f(x), ...);", 'puts("a, b;"); // c, d;', "template <class A, class B> void f(A a, B b);",
    "int (*f)(int, char);", "auto f = [a, b](int c, int d) -> pair<int, int> { return {c, d}; };"])
def test_other_commas_are_not(code):
    assert not Source(code).found
