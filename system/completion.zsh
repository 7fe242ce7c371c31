#compdef barcuda barcuda-bridge barcuda-exporter
# SPDX-License-Identifier: Apache-2.0
# zsh: completes barcuda, barcuda-bridge and barcuda-exporter. Words come from their --help, so that none can be missing here.
[[ $service != barcuda ]] && { _gnu_generic; return }

# Lines `  NAME ...  what it is for` of a part of the help, as NAME:what it is for.
_barcuda_words() { sed -n "/^$1:/,/^\$/s/^  \\($2[a-z-]*\\)[^ ]* .*  \\([^ ].*\\)/\\1:\\2/p" }

local -a found
if (( CURRENT == 2 )); then
    found=(${(f)"$($words[1] --help 2> /dev/null | _barcuda_words Subcommands '[a-z]')"})
    _describe command found
elif [[ $PREFIX == -* ]]; then
    found=(${(f)"$($words[1] $words[2] --help 2> /dev/null | sed -n 's/^  -[^ ]*,\{0,1\}\(--[a-z-]*\).*/\1/p; s/^  \(--[a-z-]*\).*/\1/p')"})
    compadd -a found
else
    local program=${words[(I)--]}
    (( program )) || program=2
    shift $program words
    (( CURRENT -= program ))
    _normal
fi
