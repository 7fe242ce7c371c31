# SPDX-License-Identifier: Apache-2.0
"""What README.md shows of programs is what they say: each line that it shows behind a prompt (`host$`, `guest$`) is a line of that program's output,
in that order, except for numbers that a machine has: its cores, its memory, how fast it copies. (README shortens. It shows the software GPU's.)"""
import re
from xml.etree import ElementTree

import pytest

from e2e.flat import BARCUDA, BUILD, TOP, run

PROMPT = r"(?:host|guest)\$ "


def shown():
    """{command: lines} of README."""
    commands = {}
    for block in re.findall("^```.*\n((?:.*\n)*?)```", (TOP / "README.md").read_text(), re.M):
        for command, output in re.findall(rf"^{PROMPT}(.*)\n((?:(?!{PROMPT}).*\n)*)", block, re.M):
            commands[command] = output.splitlines()
    return commands


def any_machine(text):
    text = re.sub(r"\([0-9]+ cores?\)", "(N cores)", text)
    return re.sub(r"[0-9.]+ (GiB|GB/s)", r"N \1", text)


def test_readme_shows_programs():
    assert len(shown()) >= 4, shown()


@pytest.mark.parametrize("command, lines", shown().items(), ids=shown())
def test_what_readme_shows_of_a_program_is_what_it_says(command, lines, scratch):
    (scratch / "nvidia-smi").symlink_to(BARCUDA)
    words = command.split()
    if words[0] == "barcuda":
        ran = run(BARCUDA, *words[1:], env={"BARCUDA_REGION": None})
    else:
        program = scratch / words[0] if words[0] == "nvidia-smi" else BUILD / words[0].removeprefix("build/")
        ran = run(BARCUDA, "run", "--device", "soft", "--region-size", "256M", "--", program, *words[1:])
    assert ran.status == 0, ran
    said = iter(any_machine(ran.said).splitlines())
    for line in lines:
        assert any(any_machine(line) == each for each in said), f"{line!r} is not said, or not there: {ran}"


def test_the_recordings_commands_are_commands_and_its_lines_are_within_it():
    """docs/operating/record has written it, of a real run."""
    root = ElementTree.parse(TOP / "docs/operating/recording.svg").getroot()
    width = float(root.get("viewBox").split()[2])
    lines = {"".join(each.itertext()): float(each.get("x")) + float(each.get("textLength")) for each in root.findall("{*}text")}
    typed = re.findall("^host\\$ (barcuda [a-z]+)", "\n".join(lines), re.M)
    known = re.findall("^  ([a-z][a-z-]*)  ", run(BARCUDA, "help").out, re.M)
    assert {"barcuda demo", "barcuda run", "barcuda top"} <= {words for words in typed if words.split()[1] in known}, typed
    assert "PASSED" in lines and any(line.startswith("barcuda top  ") for line in lines)
    assert [line for line, end in lines.items() if end > width] == []


def test_the_charts_words_are_within_the_chart():
    """At 6.5 units a letter of 12."""
    chart = (TOP / "docs/performance/readme.svg").read_text()
    width = float(re.search('viewBox="0 0 ([0-9.]+) ', chart)[1])
    words = re.findall('<text x="([0-9.]+)" y="[0-9.]+" class="">([^<]*)</text>', chart)
    assert len(words) == 5 and [text for at, text in words if float(at) + 6.5 * len(text) > width] == []


def test_the_diagrams_words_are_within_their_boxes():
    """At 9 units a bold letter of 15, and 7.4 one of 14."""
    root = ElementTree.parse(TOP / "docs/how-it-works.svg").getroot()
    boxes = [[float(each.get(name)) for name in ("x", "y", "width", "height")] for each in root.findall(".//{*}rect") if each.get("x")]
    inside = 0
    for group in [root, *root.findall("{*}g")]:
        for text in group.findall("{*}text"):
            x, y, words = float(text.get("x")), float(text.get("y")), text.text
            around = [left + width for left, top, width, height in boxes if left <= x <= left + width and top <= y <= top + height]
            is_bold = "bold" in (text.get("font-weight"), group.get("font-weight"))
            if around and text.get("text-anchor") is None:
                inside += 1
                assert x + len(words) * (9 if is_bold else 7.4) <= min(around), words
    assert inside >= 15
