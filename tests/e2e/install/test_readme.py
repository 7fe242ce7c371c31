# SPDX-License-Identifier: Apache-2.0
"""What README.md shows of programs is what they say: each line that it shows behind `guest$ build/programs/NAME` is a line of that program's
output, in that order, except for the number of cores. (README shortens. It shows the software GPU's.)"""
import re

import pytest

from e2e.flat import BARCUDA, BUILD, TOP, run


def shown():
    """{program: lines} of README."""
    programs = {}
    for block in re.findall("^```.*\n((?:.*\n)*?)```", (TOP / "README.md").read_text(), re.M):
        for command, output in re.findall(r"^guest\$ (.*)\n((?:(?!guest\$ ).*\n)*)", block, re.M):
            if program := re.fullmatch(r"build/programs/(\w+)", command):
                programs[program[1]] = output.splitlines()
    return programs


def any_cores(text):
    return re.sub(r"\([0-9]+ cores?\)", "(N cores)", text)


def test_readme_shows_programs():
    assert len(shown()) >= 2, shown()


@pytest.mark.parametrize("program, lines", shown().items(), ids=shown())
def test_what_readme_shows_of_a_program_is_what_it_says(program, lines):
    ran = run(BARCUDA, "run", "--device", "soft", "--region-size", "256M", "--", BUILD / "programs" / program)
    assert ran.status == 0, ran
    said = iter(any_cores(ran.said).splitlines())
    for line in lines:
        assert any(any_cores(line) == each for each in said), f"{line!r} is not said, or not there: {ran}"
