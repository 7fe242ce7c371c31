# SPDX-License-Identifier: Apache-2.0
"""Help on a terminal is no wider than it; elsewhere each option has one line, which programs read (the completions)."""
import fcntl
import os
import pty
import struct
import subprocess
import termios

import pytest

from e2e.flat import BARCUDA, BRIDGE, succeed

COMMANDS = [[BARCUDA, "help"], [BARCUDA, "vm", "--help"], [BARCUDA, "help", "limit"], [BRIDGE, "--help"]]


def on_a_terminal(columns, command):
    """What the command says on a terminal with this number of columns."""
    side, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("4H", 24, columns, 0, 0))
    program = subprocess.Popen(command, stdout=terminal, stderr=terminal, stdin=subprocess.DEVNULL)
    os.close(terminal)
    said = b""
    try:
        while more := os.read(side, 1 << 16):
            said += more
    except OSError:  # EIO: the program's side is closed
        pass
    os.close(side)
    assert program.wait() == 0, said
    return said.decode().replace("\r\n", "\n")


@pytest.mark.parametrize("columns", [60, 80, 132])
@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[-2] if command[-1] == "--help" else command[-1])
def test_no_line_is_wider_than_the_terminal_and_no_word_is_lost(command, columns):
    said = on_a_terminal(columns, command)
    assert [line for line in said.splitlines() if len(line) > columns and " " in line.strip()] == []
    assert said.split() == succeed(*command).split()


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[-2] if command[-1] == "--help" else command[-1])
def test_no_internals_of_the_parser_are_shown(command):
    assert "kb(=" not in succeed(*command)
