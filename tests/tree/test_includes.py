# SPDX-License-Identifier: Apache-2.0
"""What a source uses of the standard library's headers that are precompiled (mk/settings.mk) it includes, itself or by headers of the tree: the
compiler, which has read them before, does not miss them."""
import re
from functools import lru_cache
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
HEADERS = re.search(r"^common_headers := ((?:.*\\\n)*.*)", (TOP / "mk/settings.mk").read_text(), re.M)[1].replace("\\", "").split()
NAMES = {
    "algorithm": r"sort|stable_sort|nth_element|find_if|find_if_not|any_of|all_of|none_of|count_if|remove_if|copy_if|lower_bound|upper_bound|clamp|"
                 r"max_element|min_element|transform|reverse|unique|replace|fill|ranges::\w+",
    "array": r"array|to_array",
    "atomic": r"atomic\w*|memory_order\w*",
    "chrono": r"chrono",
    "condition_variable": r"condition_variable\w*",
    "cstring": r"mem(?:cpy|set|cmp|move)|str(?:len|cmp|ncmp|chr|error)",
    "functional": r"function",
    "map": r"map|multimap",
    "memory": r"unique_ptr|shared_ptr|weak_ptr|make_unique|make_shared|enable_shared_from_this",
    "mutex": r"mutex|recursive_mutex|lock_guard|unique_lock|scoped_lock|once_flag|call_once",
    "optional": r"optional|nullopt|make_optional",
    "span": r"span|as_bytes|as_writable_bytes",
    "string": r"string|to_string|sto(?:i|ul|ull)",
    "thread": r"thread|jthread|this_thread",
    "unordered_map": r"unordered_map",
    "variant": r"variant|visit|monostate|holds_alternative|get_if",
    "vector": r"vector",
}
USED = {header: re.compile(rf"\bstd::(?:{names})\b") for header, names in NAMES.items()}
NO_CODE = re.compile(r'//.*|"(?:[^"\\\n]|\\.)*"')
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.M)


@lru_cache(None)
def text(file):
    return file.read_text()


def included(file):
    """The headers that are not the tree's, as this file and the tree's headers name them."""
    seen, left, theirs = set(), [file], set()
    while left:
        one = left.pop()
        if one in seen:
            continue
        seen.add(one)
        for mark, name in INCLUDE.findall(text(one)):
            if mark == "<":
                theirs.add(name)
            else:
                left += [path for path in (TOP / name, one.parent / name) if path.is_file()][:1]
    return theirs


def forgotten(file):
    code = NO_CODE.sub("", text(file))
    used = {header: found[0] for header, names in USED.items() if (found := names.search(code))}
    there = included(file) if used else set()
    return [f"{file.relative_to(TOP)}: {name} without <{header}>" for header, name in used.items() if header not in there]


def test_each_header_that_is_precompiled_has_its_names_here():
    assert sorted(HEADERS) == sorted(NAMES)


@pytest.mark.parametrize("folder", ["base", "shm-device", "guest-allocator", "host-bridge", "soft-gpu"])
def test_each_file_includes_what_it_uses_of(folder):
    files = [file for kind in ("*.cc", "*.h") for file in sorted((TOP / folder).rglob(kind))]
    assert files and [line for file in files for line in forgotten(file)] == []
