# SPDX-License-Identifier: Apache-2.0
"""What the pages name is there: files and folders, tests, make's targets, options, functions, variables; a member in its class, a name before
a file in that file. Names of CUDA's begin with cu; those of other things are in `foreign`. A row of commands in a page is the tree's row. What
comments of the sources name as a file is there."""
import os
import re
from pathlib import Path

import pytest

os.chdir(Path(__file__).resolve().parents[2])
files = []
for folder, folders, names in os.walk("."):
    folders[:] = [f for f in folders if f not in (".git", "__pycache__") and not f.startswith("build")]
    files += [str(Path(folder, name)) for name in names if Path(folder, name).is_file()]
pages = [f for f in files if f.endswith(".md")]
folders = {str(p) for f in files for p in Path(f).parents} - {"."}
code = "\n".join(Path(f).read_text(errors="replace") for f in files if f not in pages and not f.endswith((".svg", "LICENSE")))
words = set(re.findall(r"\w+", code))
tests = {f"{m[1]}.{m[2]}" for m in re.finditer(r"\bTEST(?:_[FP])?\((\w+),\s*(\w+)\)", code)}
make = "\n".join(Path(f).read_text() for f in files if f == "Makefile" or f.startswith("mk/"))
targets = set(re.findall(r"^([\w-]+):", make, re.M)) | set(" ".join(re.findall(r"^\.PHONY:(.*)", make, re.M)).split())
options = set(re.findall(r"--[a-z][\w-]+", code))
SOURCE = (".h", ".cc", ".c")
words_of = {f: set(re.findall(r"\w+", Path(f).read_text(errors="replace"))) for f in files if f.endswith(SOURCE)}
members = {}  # of a class or a namespace: all words of the headers and sources that have it
for f in words_of:
    for m in re.finditer(r"^[^/\n]*?\b(?:enum class|class|struct|namespace|enum)(?: \[\[.*?\]\]| alignas\(\w+\))? ([\w:]+)[^;>,\n]*\{", Path(f).read_text(), re.M):
        for name in m[1].split("::"):
            members.setdefault(name, set()).update(words_of[f])
KNOWN = r"(?:cc|h|c|cu|sh|py|md|map|svg|json|conf|rules|S|txt)"

# Jupyter's, sshd's, glibc's, PyTorch's and CuPy's, the kernel's, PTX's, udevadm's, mokutil's, virt-install's, Slurm's, Kubernetes' resources, systemd-tmpfiles', a profiler's and a debugger's; what is short for a name; what is no name.
foreign = set("""
pidfd_getfd RTLD_DEEPBIND
malloc_trim mallinfo malloc_info
softmax layer_norm bmm matmul _scaled_mm linalg conv2d fft fft2 scaled_dot_product_attention mem_get_info RawKernel
uvm_disable_hmm
sub.cc
barcuda.dev/gpu barcuda.dev/vm
--gres --gres=barcuda:1 ConstrainDevices
--reload --create --import --shmem
nsys --args
--no-browser --execute --inplace sshd_config
Unregister _7 _17 _19
manager
""".split())


ROW = re.compile(r"\bX\((\w+)(?:,\s*((?:[^()]|\([\d, ]*\))*))?\)")  # traits may have numbers: charges(1)
rows = {}  # name: traits and kinds; empty where only the name stands in a list
for header in Path("shm-device/rows").glob("*.h"):
    for m in ROW.finditer(header.read_text()):
        rows.setdefault(m[1], "")
        rows[m[1]] = re.sub(r"\s", "", m[2] or "") or rows[m[1]]


def file_is_there(path, page):
    """A path of the tree, from its top, from the page's folder, or the end of one; *, NAME and ROOM stand for anything."""
    path = path.rstrip("/").removeprefix("./")
    path = str(Path(path))
    if path in files or path in folders or (Path(page).parent / path).exists():
        return True
    if re.search(r"[*]|NAME|ROOM|\.\.\.", path):
        pattern = re.compile(r"(^|/)" + re.sub(r"\\\*|NAME|ROOM|\\\.\\\.\\\.", "[^/]*", re.escape(path)) + r"$")
        return any(pattern.search(f) for f in files) or any(pattern.search(f) for f in folders)
    # A test is named without its ending: tests/unit/queue/wait_test, programs/blas.
    ends = lambda f: f.endswith("/" + path) or ("/" + str(Path(f).with_suffix(""))).endswith("/" + path)
    return any(ends(f) for f in files) or any(f.endswith("/" + path) for f in folders)


def wrong(text, page):
    """What is wrong with one piece of code of a page; None if nothing is."""
    if text in foreign:
        return None
    if re.fullmatch(r"[\w./*-]+", text) and not text.startswith("/") and ("/" in text or re.search(r"\." + KNOWN + "$", text)):
        if re.match(r"(build[\w-]*|lib|bin)/", text):  # what is built or installed
            return None
        return None if file_is_there(text, page) else "no such file"
    if re.fullmatch(r"[A-Z]\w*\.[A-Z]\w+", text):
        return None if text in tests else "no such test"
    if m := re.match(r"make ([a-z][\w-]*)$", text):
        return None if m[1] in targets else "no such target"
    if text.startswith("--"):
        return None if text in options else "no such option"
    if m := re.fullmatch(r"((?:\w+::)*\w+)(?:\(\))?", text):
        for name in m[1].split("::"):
            if not (name in words or name in targets or re.match(r"(__)?(cu|CU|nv)[a-zA-Z_]", name) or name.isdigit()):
                return "no such name"
        parts = m[1].split("::")
        for owner, name in zip(parts, parts[1:]):
            if owner in members and name not in members[owner]:
                return f"{owner} has no such member"
    return None


tops = "|".join(sorted({f.split("/")[0] for f in folders if not f.startswith(".")}))
in_command = re.compile(rf"(?<![\w/.-])((?:{tops})/[\w./*-]+|--[a-z][\w-]+|make [a-z][\w-]*$)")

# `name` (`file.cc`: the name is in that file.
BEFORE_FILE = re.compile(r"`(?:\w+::)*(\w+)(?:\(\))?`\s+\(`([\w./-]+\.(?:cc|h|c))`")


def complaints(page):
    text = Path(page).read_text()
    for m in BEFORE_FILE.finditer(text):
        named = [f for f in words_of if f.endswith("/" + m[2].removeprefix("./"))]
        if named and not any(m[1] in words_of[f] for f in named):
            yield f"{page}: {m[1]} is not in {m[2]}"
    for m in ROW.finditer(text):
        if m[2] and (m[1] not in rows or rows[m[1]] not in ("", re.sub(r"\s", "", m[2]))):
            yield f"{page}: {m[0]}: the tree's row is {rows.get(m[1]) or 'not there'}"
    block = False  # of commands and their output
    for number, line in enumerate(text.split("\n"), 1):
        block ^= line.startswith("```")
        pieces = [line] if block else re.findall(r"`([^`]+)`", line)
        names = [name for piece in pieces for name in ([piece] if not re.search(r"\s", piece) else in_command.findall(piece))]
        found = [(name, wrong(name, page)) for name in names if not block or in_command.match(name)]
        for target in re.findall(r"\]\(([^)\s]+)\)", line):
            if not re.match(r"https?:|#|\.\./\.\./", target):
                found.append((target, None if (Path(page).parent / target.split("#")[0]).exists() else "leads nowhere"))
        for name, what in found:
            if what:
                yield f"{page}:{number}: {name}: {what}"


@pytest.mark.parametrize("page", sorted(page.removeprefix("./") for page in pages))
def test_what_a_page_names_is_there(page):
    assert list(complaints(page)) == []


COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)
IN_COMMENT = re.compile(r"(?<![\w<./-])((?:[\w-]+/)*[\w-]+\.(?:h|cc|c|md|py))\b(?![>\w])")
elsewhere = set("""
cuda.h cudaTypedefs.h linux/dm-ioctl.h crt/host_runtime.h soft_functions.h _calls.cc
SPEC.md cmd/sidecars/README.md add.h add.cc sub.cc
""".split())  # others' files, what the build writes, ends of names, instructions


def test_a_file_that_a_comment_names_is_there():
    wrong = []
    ends = {"/".join(Path(f).parts[i:]) for f in files for i in range(len(Path(f).parts))}
    for f in words_of:
        text = Path(f).read_text(errors="replace")
        for comment in COMMENT.finditer(text):
            for name in IN_COMMENT.findall(comment[0]):
                if name not in ends and name not in elsewhere:
                    wrong.append(f"{f}:{text.count(chr(10), 0, comment.start()) + 1}: {name}")
    assert not wrong
