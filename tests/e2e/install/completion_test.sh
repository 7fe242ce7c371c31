#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The completions of bash and zsh know the commands, their own commands, their options and the options' values, and leave a program's words to
# the shell. The shells' own functions are replaced by some that print what they are given.
. "$(dirname "$0")/../lib.sh"
tried=
for shell in zsh bash; do command -v $shell > /dev/null && tried+=" $shell"; done
[ -e /usr/share/bash-completion/bash_completion ] || tried=${tried/ bash/}
[ -n "$tried" ] || { echo "skipped: neither zsh nor bash-completion is installed"; exit 77; }
cat > "$scratch/zsh" << 'Z'
completion=$1; shift
words=("$@") CURRENT=$# PREFIX=${@[-1]}
compadd() { shift; print -l -- ${(P)1}; }
_describe() { print -l -- ${(P)2%%:*}; }
_normal() { print -r -- "the shell's: $words"; }
_files() { print files; }
_command_names() { print programs; }
complete_it() { source $completion }
complete_it
Z
cat > "$scratch/bash" << 'B'
. /usr/share/bash-completion/bash_completion
. "$1"; shift
_filedir() { echo files; }
_command_offset() { echo "the shell's: ${COMP_WORDS[*]:$1}"; }
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMP_LINE="$*" COMP_POINT=${#COMP_LINE} COMP_TYPE=9 COMP_KEY=9
_barcuda "$1"
printf '%s\n' "${COMPREPLY[@]}"
B
knows() { # knows EXPECTED WORDS...: is it among what there is for the last of these words?
    local expected=$1; shift
    case $shell in zsh) zsh -f "$scratch/zsh" system/completion.zsh "$program" "$@" ;; bash) bash --norc "$scratch/bash" system/completion.bash "$program" "$@" ;; esac > "$scratch/out" 2>&1
    grep -qxF -- "$expected" "$scratch/out" || fail "$shell: for '$*' not '$expected' but: $(cat "$scratch/out")"
}
for shell in $tried; do
    program=$build/bin/barcuda
    for command in run doctor limit guest vm help; do knows $command ""; done
    knows enable guest ""
    knows --every-program guest enable --
    for option in --device --gpus --host-libraries; do knows $option run --; done
    knows --interval top --once --
    knows soft run --device ""
    knows files vm --image ""
    knows "the shell's: ls -l" run --device soft ls -l
    knows "the shell's: ls -l" run -- ls -l
    program=$build/bin/barcuda-bridge
    for option in --region --group --client-device-memory; do knows $option --; done
    knows cuda --device ""
done
echo "passed:$tried"
