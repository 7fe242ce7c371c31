# SPDX-License-Identifier: Apache-2.0
"""The pages of the manual (packaging/manual): each command and program has one, with all its options, examples that the programs understand, and
exit statuses; troff finds nothing wrong with them. barcuda.conf(5) has every option of the file."""
import configparser
import re
import shlex

import pytest

from e2e.flat import BARCUDA, BRIDGE, TOP, need, run, succeed

COMMANDS = [name for name in re.findall(r"^  ([a-z][a-z-]*)  ", succeed(BARCUDA, "help").split("Subcommands:")[1], re.M) if name != "help"]


@pytest.fixture(scope="module")
def manual(shared):
    succeed(TOP / "packaging/manual", BARCUDA.parent, shared / "man")
    return shared / "man"


def options(said):
    return set(re.findall(r"^ {2,4}(?:-\w,)?(--[a-z][a-z-]*)", said, re.M)) - {"--help", "--help-all"}


def text_of(page):
    return page.read_text().replace("\\-", "-")


def test_there_is_a_page_for_each_command_and_program(manual):
    assert {page.name for page in manual.iterdir()} == {
        "barcuda.1", *(f"barcuda-{name}.1" for name in COMMANDS), "barcuda-bridge.8", "barcuda-exporter.8", "barcuda.conf.5"}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_commands_page_has_its_options_its_commands_and_its_exit_statuses(manual, command):
    page, said = text_of(manual / f"barcuda-{command}.1"), succeed(BARCUDA, "help", command)
    for option in options(said):
        assert re.search(rf"^\.B .*{option}\b", page, re.M), f"no {option}"
    for inner in re.findall(r"^  ([a-z-]+)  ", said.partition("Subcommands:")[2], re.M):
        for option in options(succeed(BARCUDA, "help", command, inner)):
            assert re.search(rf"^\.B .*{option}\b", page, re.M), f"no {option} of {inner}"
    for heading in "NAME", "SYNOPSIS", "EXIT STATUS", "SEE ALSO":
        assert f".SH {heading}\n" in page, f"no {heading}"


def test_the_page_of_the_file_has_every_option(manual):
    names = re.findall(r"^#([\w-]+) =", succeed(BRIDGE, "--print-config"), re.M)
    page = text_of(manual / "barcuda.conf.5")
    assert len(names) > 30 and [name for name in names if f"\n.B {name} =" not in page] == []


def test_the_pages_that_units_name_are_there(manual):
    named = {unit.name: re.findall(r"man:([\w.-]+)\((\d)\)", unit.read_text()) for unit in TOP.glob("system/*.service.in")}
    assert len(named) == 3 and all(named.values()), named
    assert [page for pages in named.values() for page in pages if not (manual / ".".join(page)).exists()] == []
    assert all(page[0] == unit.partition(".")[0].rstrip("@") for unit, pages in named.items() for page in pages), named
    assert ("barcuda-bridge", "8") in named["barcuda-bridge@.service.in"], "barcuda-bridge(1) is a command's page"


def test_commands_that_are_hard_to_undo_have_examples(manual):
    for name in "suspend", "wake", "pause", "upgrade", "limit", "guest":
        assert ".SH EXAMPLES\n" in text_of(manual / f"barcuda-{name}.1"), name


def test_troff_finds_nothing_wrong(manual):
    need("groff")
    for page in manual.iterdir():
        ran = run("groff", "-man", "-Tutf8", "-ww", "-z", page)
        assert ran.status == 0 and not ran.err, ran


def examples():
    parts = configparser.ConfigParser(interpolation=None, delimiters=("=",))
    parts.read(TOP / "packaging/manual.ini")
    for section in parts.sections():
        for row in parts[section].get("examples", "").splitlines():
            words = shlex.split(row.partition(" | ")[0])
            if words and words[0] in ("sudo",):
                words = words[1:]
            if words and words[0] in ("barcuda", "barcuda-bridge"):
                yield words


@pytest.mark.parametrize("words", examples(), ids=" ".join)
def test_the_options_of_an_example_are_the_commands(words):
    own = words[:words.index("--")] if "--" in words else words
    command = [BARCUDA.with_name(own[0])]
    while len(own) > 1 and re.search(rf"^  {re.escape(own[1])}  ", succeed(*command, "--help").partition("Subcommands:")[2], re.M):
        command.append(own.pop(1))
    assert len(command) > 1 or own[0] == "barcuda-bridge", f"there is no such command: {words}"
    known = options(succeed(*command, "--help"))
    if command[-1] not in ("start", "wake"):  # whose options are the bridge's
        assert {word.partition("=")[0] for word in own if word.startswith("--")} <= known, words


def test_every_section_of_the_file_is_a_page(manual):
    parts = configparser.ConfigParser(interpolation=None, delimiters=("=",))
    parts.read(TOP / "packaging/manual.ini")
    assert set(parts.sections()) - {"barcuda", "barcuda-bridge", "barcuda-exporter", "barcuda.conf"} <= set(COMMANDS)
