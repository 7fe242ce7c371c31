#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The pages in `pages` are in plain English: no word of words.txt, whose lines are in codespell's form, and no misspelling that codespell
# knows. Code between backticks does not count. words.txt holds phrases too, which codespell does not look for. When a page has been
# rewritten it joins the list: the list is meant to grow.
pages=(README.md CONTRIBUTING.md SECURITY.md CHANGELOG.md docs/adding-an-api.md docs/compatibility.md docs/containers.md docs/cuda-users.md
    docs/decisions docs/design.md docs/heap.md docs/install.md docs/limits.md docs/managed.md docs/operating.md docs/oversubscription.md
    docs/path-of-a-call.md docs/performance.md docs/profiling.md docs/recipes.md docs/region.md docs/state.md docs/support.md docs/testing.md
    docs/threat-model.md docs/troubleshooting.md docs/using-your-own-vm.md docs/versions.md docs/where-time-goes.md docs/windows.md)

cd "$(dirname "$0")/../.." || exit 1
words=tests/tree/words.txt
command -v codespell > /dev/null || { echo "skipped: codespell is not installed"; exit 77; }
wrong=0
codespell --dictionary - --dictionary "$words" --ignore-regex '`[^`]*`' "${pages[@]}" || wrong=1
while IFS= read -r line; do
    phrase=${line%%->*}
    [[ $phrase == *' '* ]] || continue
    while IFS= read -r -d '' found; do  # a phrase may continue on the next line
        echo "${found%%:*}: $phrase ==> ${line#*->}"
        wrong=1
    done < <(grep -rzoiHE "\b${phrase// /[[:space:]]+}\b" "${pages[@]}")
done < "$words"
[ "$wrong" = 0 ] && echo passed
exit "$wrong"
