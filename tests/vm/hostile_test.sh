#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Clients that lie in a guest harm neither the kernel there, nor the module, nor the client beside them, nor the host.
cd "$(dirname "$0")/../.." || exit 1
command -v qemu-system-x86_64 > /dev/null || { echo "skipped: qemu-system-x86_64 is not installed (make deps)"; exit 77; }
BARCUDA_BUILD=${BUILD:-build} exec tests/vm/hostile --seconds 16 --seed "${SEED:-1}"
