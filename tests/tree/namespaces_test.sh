#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Guest and host have no namespace in common but what both share (docs/decisions/0013-namespaces.md): no name of the one can be the other's.
cd "$(dirname "$0")/../.." || exit 1
# (A guest's commands are a part of the program barcuda, and have its namespace.)
wrong=$(
    grep -rnE '^namespace barcuda' guest-allocator --include='*.h' --include='*.cc' | grep -vE '^guest-allocator/commands/|barcuda::(guest|heap|runtime|pmem)\b'
    grep -rnE '^namespace barcuda::(guest|heap|runtime|pmem)\b' base host-bridge shm-device soft-gpu --include='*.h' --include='*.cc'
)
[ -z "$wrong" ] && echo passed && exit
printf '%s\n' "$wrong" "a name of the guest's in a namespace of the host's, or the other way round"
exit 1
