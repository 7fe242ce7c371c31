# SPDX-License-Identifier: Apache-2.0
"""A type's name belongs to one file of a program. The programs are the guest's library and commands, the host's processes, and the software GPU;
base and shm-device are a part of the first two. Types inside a class or a function do not count, since their owner says which one is meant, nor
do those of a subject's own namespace. Guest and host may both have a Client or a Bell, which are the two halves of one thing."""
import re
from collections import defaultdict
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
PROGRAMS = {"guest": ["base", "shm-device", "guest-allocator"], "host": ["base", "shm-device", "host-bridge"], "software GPU": ["soft-gpu"]}
# Namespaces of a subject: their names are read with the namespace before them (virtqueue::Place, turns::Place), or within their folder.
SUBJECTS = set("ast cage cards door driver ext fatbin heap keeping kind kubernetes managed nvml os request residency turns virtqueue watch".split())
TYPE = re.compile(r"\b(?:struct|class|union|enum(?:\s+(?:class|struct))?)\s+(?:alignas\([^)]*\)\s*|__attribute__\(\(.*?\)\)\s*|\[\[.*?\]\]\s*)*(\w+)"
                  r"(?:\s+final)?\s*(?::[^:;{}()][^;{}]*)?$", re.S)
NO_CODE = re.compile(r"//[^\n]*|/\*.*?\*/|^[ \t]*#(?:[^\n]*\\\n)*[^\n]*|R\"(\w*)\(.*?\)\1\"|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])+'", re.S | re.M)


def types(text):
    """The types that a source defines in namespaces, and in none of a subject (in an unnamed one, also there)."""
    text, start, inside = NO_CODE.sub(" ", text), 0, []
    for mark in re.finditer(r"[;{}]", text):
        head, start = text[start:mark.start()].strip(), mark.end()
        if mark[0] == "{":
            space = re.search(r"\bnamespace\b\s*([\w:]*)$|\bextern$", head)
            found = TYPE.search(head)
            if found and None not in inside and (not inside or inside[-1] not in SUBJECTS):
                yield found[1]
            inside.append((space[1] or "").split("::")[-1] if space else None)
        elif mark[0] == "}" and inside:
            inside.pop()


def twice(sources):
    files = defaultdict(set)
    for name, text in sources:
        for found in types(text):
            files[found].add(name)
    return {found: sorted(where) for found, where in files.items() if len(where) > 1}


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_name_of_a_type_is_in_one_file_of_a_program(program):
    sources = [(str(file.relative_to(TOP)), file.read_text()) for folder in PROGRAMS[program] for kind in ("h", "cc")
               for file in sorted((TOP / folder).rglob(f"*.{kind}"))]
    assert len(sources) > 50
    assert twice(sources) == {}, "name the types by their roles"


@pytest.mark.parametrize("code, names", [
    ("namespace barcuda { struct A { struct B {}; }; }", ["A"]),
    ("namespace barcuda::guest { namespace { class A final : public B { enum C { x }; }; } }", ["A"]),
    ("template <class T> struct A { void f() { struct B {}; } };", ["A"]),
    ("enum class A : int { x };", ["A"]),
    ("namespace barcuda::turns { struct A {}; namespace { struct B {}; } }", ["B"]),
    ("struct A; void f(struct A a) {} // struct B {", []),
])
def test_types_are_found(code, names):
    assert list(types(code)) == names


def test_a_name_in_two_files_is_found():
    assert twice([("a.cc", "struct A {};"), ("b.cc", "namespace { struct A {}; }"), ("c.cc", "struct B {};")]) == {"A": ["a.cc", "b.cc"]}
