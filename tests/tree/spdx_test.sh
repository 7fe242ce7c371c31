#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Every source file says its licence: in its first line, or behind the line that names its interpreter. --fix adds what is missing: the
# project's own licence (a file of the module, guest-uio, says its own).
cd "$(dirname "$0")/../.." || exit 1
missing=()
while IFS= read -r file; do
    case $file in
        *.cc | *.h | *.cu | *.c) comment=// ;;
        *.py | *.sh | */Makefile | */Kbuild | *.rules | *.conf) comment='#' ;;
        *) [ "$(head -c 2 "$file")" = '#!' ] || continue; comment='#' ;;
    esac
    head -n 2 "$file" | grep -q 'SPDX-License-Identifier: ' && continue
    if [ "${1-}" = --fix ] && [[ $file != ./guest-uio/* ]]; then
        at=1
        [ "$(head -c 2 "$file")" = '#!' ] && at=2
        { head -n $((at - 1)) "$file"; echo "$comment SPDX-License-Identifier: Apache-2.0"; tail -n "+$at" "$file"; } > "$file.new" &&
            cat "$file.new" > "$file" && rm "$file.new"
    else
        missing+=("$file")
    fi
done < <(find . \( -name .git -o -name 'build*' \) -prune -o -type f -print)
[ ${#missing[@]} = 0 ] && echo passed && exit
printf '%s: has no SPDX-License-Identifier\n' "${missing[@]}"
exit 1
