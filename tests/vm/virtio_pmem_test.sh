#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A guest with its stock kernel and no module of ours, whose region is memory of virtio-pmem: programs, forks, registered and managed
# memory, clients that are killed. Of the programs those whose memory is mapped, moved or shared in a way of its own;
# PROGRAMS=all tests/vm/virtio_pmem_test.sh runs all.
cd "$(dirname "$0")/../.." || exit 1
command -v qemu-system-x86_64 > /dev/null || { echo "skipped: qemu-system-x86_64 is not installed (make deps)"; exit 77; }
export TRANSPORT=virtio-pmem
PROGRAMS=${PROGRAMS:-vector_add fork_copy fork_calls host_memory registered_memory private_memory managed_variables system_calls}
[ "$PROGRAMS" = all ] && PROGRAMS=
export PROGRAMS
tests/vm/programs_test.sh && tests/vm/clients_test.sh
