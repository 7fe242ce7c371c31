# SPDX-License-Identifier: Apache-2.0
# bash: completes barcuda, barcuda-bridge and barcuda-exporter. Words come from their --help, so that none can be missing here.
_barcuda() {
    local cur prev words cword split command=$1 help i
    _init_completion -s || return
    for ((i = 1; i < cword; i++)); do
        case ${words[i]} in
            --) _command_offset $((i + 1)); return ;;
            -*) ;;
            *)
                prev=${words[i - 1]}  # whose value this may be
                [[ $prev == -* && $prev != *=* && $($command --help 2> /dev/null) == *"$prev "[A-Z]* ]] && continue
                if $command --help 2> /dev/null | sed '1,/^Subcommands:/d' | grep -q "^  ${words[i]} "; then command+=" ${words[i]}"
                else _command_offset $i; return; fi ;;
        esac
    done
    prev=${words[cword - 1]}
    help=$($command --help 2> /dev/null)
    if [[ $prev == --* ]] && [[ $help =~ "$prev "[A-Z]+(:\{([^\}]*)\})? ]]; then
        if [[ ${BASH_REMATCH[2]} ]]; then COMPREPLY=($(compgen -W "${BASH_REMATCH[2]//,/ }" -- "$cur"))
        else _filedir; fi
    elif [[ $cur == -* ]]; then
        COMPREPLY=($(compgen -W "$(sed -n 's/^  \(-[^ ]*,\)\{0,1\}\(--[a-z-]*\).*/\2/p' <<< "$help")" -- "$cur"))
    else
        COMPREPLY=($(compgen -W "$(sed -n '/^Subcommands:/,$s/^  \([a-z][a-z-]*\) .*/\1/p' <<< "$help")" -- "$cur"))
        [[ $help == *PROGRAM* ]] && COMPREPLY+=($(compgen -c -- "$cur"))
    fi
} && complete -o default -F _barcuda barcuda barcuda-bridge barcuda-exporter
