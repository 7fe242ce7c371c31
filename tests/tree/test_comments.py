# SPDX-License-Identifier: Apache-2.0
"""Comments of the sources are in plain English: no word and no phrase of words.txt, which tests/tree/words_test.sh holds the pages to."""
import io
import re
import tokenize
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
CODE = re.compile(r"\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)+'|//[^\n]*(?:\n\s*//[^\n]*)*|/\*.*?\*/", re.S)
WORDS = dict(line.split("->", 1) for line in (TOP / "tests/tree/words.txt").read_text().splitlines() if "->" in line)
WRONG = re.compile(r"\b(" + "|".join(re.escape(word).replace(r"\ ", r"\s+") for word in sorted(WORDS, key=len, reverse=True)) + r")\b(?!'?\w)", re.I)
# A folder joins when its comments have been rewritten: the list is meant to grow.
FOLDERS = ("base", "shm-device", "guest-allocator", "guest-uio", "guest-windows", "host-bridge", "soft-gpu", "tests", "mk")


def comments(text):
    """(line, text) of each block of comments, without what it quotes in backticks."""
    for found in CODE.finditer(text):
        if found[0].startswith("/"):
            words = re.sub(r"\n\s*//+", "\n", found[0])
            yield text.count("\n", 0, found.start()) + 1, re.sub(r"`[^`]*`", lambda code: re.sub(r"[^\n]", " ", code[0]), words)


def comments_of_python(text):
    """The same of a program of Python: its comments and its docstrings."""
    begins = True  # a string here is a docstring
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT or (begins and token.type == tokenize.STRING):
            yield token.start[0], re.sub(r"`[^`]*`", lambda code: re.sub(r"[^\n]", " ", code[0]), token.string)
        elif token.type not in (tokenize.NL, tokenize.COMMENT):
            begins = token.type in (tokenize.INDENT, tokenize.NEWLINE, tokenize.DEDENT)


def comments_of_scripts(text):
    """The same of a script of the shell's, or a file of make's; a text that looks like a comment counts, too."""
    for number, line in enumerate(text.splitlines(), 1):
        if found := re.search(r"(?:^|\s)#(?!!).*", line):
            yield number, re.sub(r"`[^`]*`", "", found[0])


READERS = {".h": comments, ".cc": comments, ".c": comments, ".cu": comments, ".py": comments_of_python,
           ".sh": comments_of_scripts, ".mk": comments_of_scripts, "": comments_of_scripts}


def is_script(path):
    with path.open("rb") as file:
        return re.match(rb"#!.*sh\b", file.readline()) is not None


def complaints(folder):
    for path in sorted((TOP / folder).rglob("*")):
        if path.is_file() and path.suffix in READERS and (path.suffix or is_script(path)):
            for line, words in READERS[path.suffix](path.read_text()):
                for found in WRONG.finditer(words):
                    word = re.sub(r"\s+", " ", found[1])
                    yield f"{path.relative_to(TOP)}:{line + words.count(chr(10), 0, found.start())}: {word} ==> {WORDS[word.lower()]}"


def test_pythons_comments_and_docstrings_are_found():
    program = '"""One."""\nx = "no"  # two\n\n\ndef f():\n    """Three."""\n    return """no"""\n'
    assert [line for line, _ in comments_of_python(program)] == [1, 2, 6]


@pytest.mark.parametrize("folder", FOLDERS)
def test_comments_are_in_plain_english(folder):
    assert not list(complaints(folder))
