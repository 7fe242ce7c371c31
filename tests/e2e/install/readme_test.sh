#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What README.md shows of programs is what they say: each line that it shows behind `guest$ build/programs/NAME` is a line of that program's
# output, in that order, but for the number of cores. (README shortens.)
. "$(dirname "$0")/../lib.sh"
need python3
device=soft # whose output README shows
python3 - README.md > "$scratch/shown" << 'P' || fail "README.md cannot be read"
import re, sys
inside, program = False, None
for line in open(sys.argv[1]):
    if line.startswith("```"):
        inside, program = not inside, None
    elif inside and line.startswith("guest$ "):
        begun = re.fullmatch(r"guest\$ build/programs/(\w+)\n", line)
        program = begun and begun[1]
    elif inside and program:
        print(program, line, end="")
P
programs=$(cut -d ' ' -f 1 "$scratch/shown" | uniq)
[ "$(wc -w <<< "$programs")" -ge 2 ] || fail "README shows these programs: $programs"
any_cores() { sed -E 's/\([0-9]+ cores?\)/(N cores)/'; }
for program in $programs; do
    "$build/bin/barcuda" run --device soft --region-size 256M -- "$build/programs/$program" > "$scratch/out" 2>&1 || fail "$program: $(cat "$scratch/out")"
    sed -n "s/^$program //p" "$scratch/shown" | any_cores > "$scratch/lines"
    # What diff says is in README alone is wrong there.
    any_cores < "$scratch/out" | diff "$scratch/lines" - | grep '^<' && fail "README shows that of $program, which says: $(cat "$scratch/out")"
    echo "$program: $(wc -l < "$scratch/lines") lines"
done
echo passed
