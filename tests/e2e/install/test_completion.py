# SPDX-License-Identifier: Apache-2.0
"""The completions of bash and zsh know the commands, their own commands, their options and the options' values, and leave a program's words to
the shell. The shells' own functions are replaced by some that print what they are given."""
import os

import pytest

from e2e.flat import BARCUDA, BRIDGE, need, run, written

ZSH = r"""
completion=$1; shift
words=("$@") CURRENT=$# PREFIX=${@[-1]}
compadd() { shift; print -l -- ${(P)1}; }
_describe() { print -l -- ${(P)2%%:*}; }
_normal() { print -r -- "the shell's: $words"; }
_files() { print files; }
_command_names() { print programs; }
complete_it() { source $completion }
complete_it
"""
BASH_COMPLETION = "/usr/share/bash-completion/bash_completion"
BASH = rf"""
. {BASH_COMPLETION}
. "$1"; shift
_filedir() {{ echo files; }}
_command_offset() {{ echo "the shell's: ${{COMP_WORDS[*]:$1}}"; }}
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMP_LINE="$*" COMP_POINT=${{#COMP_LINE}} COMP_TYPE=9 COMP_KEY=9
_barcuda "$1"
printf '%s\n' "${{COMPREPLY[@]}}"
"""


@pytest.fixture(params=["zsh", "bash"])
def offers(request, scratch):
    """What the shell offers for the last of the words."""
    shell = request.param
    need(shell)
    if shell == "bash" and not os.path.exists(BASH_COMPLETION):
        pytest.skip("bash-completion is not installed")
    script = written(scratch / shell, {"zsh": ZSH, "bash": BASH}[shell])
    start = {"zsh": ["zsh", "-f", script, "system/completion.zsh"], "bash": ["bash", "--norc", script, "system/completion.bash"]}[shell]
    return lambda *words: run(*start, *words).said.splitlines()


def test_commands_and_their_own_commands_are_known(offers):
    assert {"run", "doctor", "limit", "guest", "vm", "help"} <= set(offers(BARCUDA, ""))
    assert "enable" in offers(BARCUDA, "guest", "")


def test_options_are_known(offers):
    assert {"--device", "--gpus", "--host-libraries"} <= set(offers(BARCUDA, "run", "--"))
    assert "--every-program" in offers(BARCUDA, "guest", "enable", "--")
    assert "--interval" in offers(BARCUDA, "top", "--once", "--")
    assert {"--region", "--group", "--client-device-memory"} <= set(offers(BRIDGE, "--"))


def test_values_of_options_are_known(offers):
    assert "soft" in offers(BARCUDA, "run", "--device", "")
    assert "files" in offers(BARCUDA, "vm", "--image", "")
    assert "cuda" in offers(BRIDGE, "--device", "")


def test_a_programs_words_are_left_to_the_shell(offers):
    assert "the shell's: ls -l" in offers(BARCUDA, "run", "--device", "soft", "ls", "-l")
    assert "the shell's: ls -l" in offers(BARCUDA, "run", "--", "ls", "-l")
