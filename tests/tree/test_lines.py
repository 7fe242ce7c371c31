# SPDX-License-Identifier: Apache-2.0
"""Lines of at most 120 columns in the sources of C, C++ and CUDA, and one statement a line in those of C++. A row of a table may be longer (a
macro's call, alone on its line), and so may text in another language, which stands between R"( and )"."""
import re
from pathlib import Path

import pytest

from tree.statements import Source

TOP = Path(__file__).resolve().parents[2]
FOLDERS = {}
for file in sorted(file for top in ("base", "guest-allocator", "guest-uio", "guest-windows", "host-bridge", "shm-device", "soft-gpu", "tests")
                   for kind in ("cc", "h", "c", "cu") for file in (TOP / top).rglob(f"*.{kind}")):
    FOLDERS.setdefault(str(file.parent.relative_to(TOP)), []).append(file)


ROW = re.compile(r"\s*[A-Z]\w*\(.*[),] *\\?$")
RAW = re.compile(r'R"(\w*)\(.*?\)\1"', re.S)


def long_lines(text):
    text = RAW.sub(lambda raw: "\n" * raw[0].count("\n"), text)
    for number, line in enumerate(text.splitlines(), 1):
        if len(line) > 120 and not ROW.match(line):
            yield number, len(line)


def findings(folder):
    for file in FOLDERS[folder]:
        name, text = file.relative_to(TOP), file.read_text()
        for number, columns in long_lines(text):
            yield f"{name}:{number}: {columns} columns"
        for number in Source(text).lines() if file.suffix in (".cc", ".h") else ():
            yield f"{name}:{number}: statements parted by a comma: write each on a line of its own"


@pytest.mark.parametrize("folder", sorted(FOLDERS))
def test_a_statement_has_its_own_line_of_120_columns(folder):
    assert "\n".join(findings(folder)) == ""


@pytest.mark.parametrize("line, found", [
    ("x" * 121, True), ("x" * 120, False), ("// X(" + "a, " * 60 + ")", True), ("X(" + "a, " * 60 + ") \\", False), ('a = R"(\n' + "b" * 130 + ')";', False)])
def test_a_long_line_is_found(line, found):
    assert bool(list(long_lines(line))) is found


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
    "return f.template operator()<when<sizeof(T) == sizeof(R), T>, R>();", "(f(x), ...);", "f<<<1, 1, 0, s>>>(a, b);", 'puts("a, b;"); // c, d;', "template <class A, class B> void f(A a, B b);",
    "int (*f)(int, char);", "auto f = [a, b](int c, int d) -> pair<int, int> { return {c, d}; };"])
def test_other_commas_are_not(code):
    assert not Source(code).found
