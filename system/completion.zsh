#compdef barcuda barcuda-bridge barcuda-exporter
# SPDX-License-Identifier: Apache-2.0
# zsh: completes barcuda, barcuda-bridge and barcuda-exporter. Words come from their --help, so that none can be missing here.
local command=$words[1] help value name i
local -a found

_barcuda_help() { ${=command} --help 2> /dev/null }
# Lines `  NAME ...  what it is for` of the help's commands, as NAME:what it is for.
_barcuda_commands() { print -r -- "$help" | sed -n '/^Subcommands:/,/^$/s/^  \([a-z][a-z-]*\) .*  \([^ ].*\)/\1:\2/p' }
_barcuda_options() { print -r -- "$help" | sed -n 's/^  -[^ ]*,\{0,1\}\(--[a-z-]*\).*/\1/p; s/^  \(--[a-z-]*\).*/\1/p' }
# What the help says behind an option that has a value: TEXT, TEXT:{auto,cuda,soft}=auto
_barcuda_value() { print -r -- "$help" | sed -n "s/^  \(-[^ ]*,\)\{0,1\}$1 \([A-Z][^ ]*\).*/\2/p" }

help=$(_barcuda_help)
for ((i = 2; i < CURRENT; i++)); do
    name=$words[i]
    if [[ $name == -- ]]; then
        shift $i words
        (( CURRENT -= i ))
        _normal
        return
    elif [[ $name == -* ]]; then
        [[ $name != *=* && -n $(_barcuda_value $name) ]] && (( i++ ))
    elif [[ $'\n'$(_barcuda_commands) == *$'\n'$name:* ]]; then
        command+=" $name"
        [[ $command == *" help" ]] && help=$($words[1] --help 2> /dev/null) || help=$(_barcuda_help)
    else # a program, and what is its own
        shift $((i - 1)) words
        (( CURRENT -= i - 1 ))
        _normal
        return
    fi
done
name=$words[CURRENT-1]
if [[ $name == -* && $name != *=* && -n $(_barcuda_value $name) ]]; then
    value=$(_barcuda_value $name)
    if [[ $value == *:'{'*'}'* ]]; then
        value=${value#*'{'} value=${value%%'}'*}
        found=(${(s:,:)value})
        compadd -a found
    else
        _files
    fi
elif [[ $PREFIX == -* ]]; then
    found=(${(f)"$(_barcuda_options)"})
    compadd -a found
elif found=(${(f)"$(_barcuda_commands)"}) && (( $#found )); then
    _describe command found
elif [[ $help == *PROGRAM* ]]; then
    _command_names -e
else
    _files
fi
