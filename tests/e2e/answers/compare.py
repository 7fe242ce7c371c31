#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""compare.py NATIVE OURS: answers of answers.cu beside each other. Prints each group with the number of its questions, of those that differ, and
of those that differ and are in no table; with --show GROUP the questions of a group, one a line; with --open the lines that open.tsv lacks.

There are two tables: allowed.tsv has what differs for good, open.tsv what is still to be done. A line is a regular expression of questions, another
of native's answers, one of ours (each of the whole text; empty: any), and the reason; one that begins with "software GPU:" holds for no GPU, one that
begins with "GPU:" for nothing else. No line holds for a question that ends or hangs the program, or is not asked, unless it did so natively.
Questions with hw/ in their names are about the hardware: they count only where NATIVE and OURS are answers of a GPU."""
import argparse
import collections
import re
import sys
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
TABLES = (HERE / "allowed.tsv", HERE / "open.tsv")
NOT_ASKED = "(not asked)"


def read(file):
    """The questions and their answers. Lines that begin with # say where the answers come from."""
    lines = Path(file).read_text(errors="backslashreplace").splitlines()
    return dict(line.split("\t", 1) for line in lines if "\t" in line and not line.startswith("#"))


def plain(answer):
    """Without the number that nvcc gives a file: it depends on how the file is compiled."""
    return re.sub(r"(?<=_GLOBAL__N__)[0-9a-f]{8}_", "", answer)


def ends(answer):
    """Whether the question ended the program, or came after one that did."""
    return answer == NOT_ASKED or re.fullmatch(r"(crash|exit):\d+|hangs", answer) is not None


@dataclass
class Allowance:
    question: re.Pattern
    native: re.Pattern
    ours: re.Pattern
    reason: str
    used: int = 0

    def holds_for(self, hardware):
        return not self.reason.startswith("software GPU:" if hardware else "GPU:")

    def covers(self, question, native, ours):
        if ends(ours) and not ends(native):
            return False
        return all(pattern.fullmatch(text) for pattern, text in ((self.question, question), (self.native, native), (self.ours, ours)))


def allowances(*files):
    made = []
    for file in files or TABLES:
        for number, line in enumerate(Path(file).read_text().splitlines(), 1):
            if not line or line.startswith("#"):
                continue
            columns = line.split("\t")
            if len(columns) != 4 or not columns[3]:
                raise ValueError(f"{file}:{number}: a line has four columns, with a reason in the last")
            made.append(Allowance(*(re.compile(column or ".*") for column in columns[:3]), columns[3]))
    return made


@dataclass
class Outcome:
    """Of a comparison: questions by group; those that differ, with native's answer, ours, and the allowance or None."""
    asked: collections.Counter
    differing: list

    @property
    def unexplained(self):
        return [one for one in self.differing if not one[3]]


def compare(native, ours, table, hardware):
    asked, differing = collections.Counter(), []
    for question, answer in native.items():
        if not hardware and "/hw/" in question:
            continue
        asked[question.split("/")[0]] += 1
        heard = ours.get(question, NOT_ASKED)
        if plain(heard) == plain(answer):
            continue
        allowance = next((one for one in table if one.holds_for(hardware) and one.covers(question, answer, heard)), None)
        if allowance:
            allowance.used += 1
        differing.append((question, answer, heard, allowance))
    return Outcome(asked, differing)


def main():
    words = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0], formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("native", help="a file with native's answers")
    words.add_argument("ours", help="a file with the answers through Barcuda")
    words.add_argument("--hardware", action="store_true", help="both are answers of one GPU: compare what names the hardware, too")
    words.add_argument("--show", metavar="GROUP", help="the questions of this group that differ and are not allowed")
    words.add_argument("--open", action="store_true", help="the lines that open.tsv lacks; their last column is to be filled in")
    given = words.parse_args()
    table = allowances()
    outcome = compare(read(given.native), read(given.ours), table, given.hardware)
    if given.show:
        for question, answer, heard, _ in outcome.unexplained:
            if question.startswith(given.show):
                print(f"{question} | {answer} | {heard}")
        return 0
    if given.open:
        for question, answer, heard, _ in outcome.unexplained:
            print(*(re.escape(text) for text in (question, answer, heard)), "", sep="\t")
        return 0
    differing = collections.Counter(one[0].split("/")[0] for one in outcome.differing)
    unexplained = collections.Counter(one[0].split("/")[0] for one in outcome.unexplained)
    for group, count in outcome.asked.items():
        print(f"{group:32} {count:6} asked {differing[group]:6} differ {unexplained[group]:6} of them without a reason")
    total = sum(outcome.asked.values())
    equal = total - len(outcome.differing)
    print(f"{total} questions: {equal} equal ({100 * equal / total:.2f} %), {len(outcome.differing) - len(outcome.unexplained)} allowed, "
          f"{len(outcome.unexplained)} without a reason ({100 * (total - len(outcome.unexplained)) / total:.2f} % explained)")
    ends = sum(native.startswith("crash") for _, native, _, _ in outcome.differing)
    print(f"without {ends} questions that end the program natively, and are answered: {100 * equal / (total - ends):.2f} % equal")
    return 0


if __name__ == "__main__":
    sys.exit(main())
