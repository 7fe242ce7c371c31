#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A function that is refused says once which it is, why, and what to do instead, in the words of docs/support.md, and so does the
# log of errors each time; the program gets the error that says so.
. "$(dirname "$0")/../lib.sh"
$run -- "$build/e2e/refused" > "$scratch/out" 2> "$scratch/err" || { cat "$scratch/out" "$scratch/err"; fail "refused"; }
page=$(tr -s ' \n' ' ' < docs/support.md)
for name in cuDeviceGetLuid cuMulticastGetGranularity cuCheckpointProcessLock cudaSetValidDevices cuImportExternalMemory; do
    said=$(grep "^barcuda: $name: not supported: " "$scratch/err")
    [ "$(wc -l <<< "$said")" = 1 ] && [ -n "$said" ] || fail "$name said: $said"
    why=${said#*not supported: }
    [[ $why = *\;* ]] || fail "$name does not say what to do instead: $said"
    [[ $page = *"- **${why^}.** "* ]] || fail "docs/support.md does not say of $name: ${why^}"
    heard=$(grep -cxF "heard $name: not supported: $why" "$scratch/out")
    [ "$heard" = 2 ] || fail "the log of errors told of $name $heard times"
done
for name in cuDeviceGetLuid cuMulticastGetGranularity cuCheckpointProcessLock cudaSetValidDevices cudaImportExternalMemory; do
    [ "$(grep -c "^$name answers 801\$" "$scratch/out")" = 2 ] || fail "$(grep "^$name" "$scratch/out")"
done
echo "what is refused says why, and what to do instead"
