#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The kernel module's promises, in a guest, and those of tests/vm/run itself.
cd "$(dirname "$0")/../.." || exit 1
command -v qemu-system-x86_64 > /dev/null || { echo "skipped: qemu-system-x86_64 is not installed (make deps)"; exit 77; }
BARCUDA_BUILD=${BUILD:-build} exec tests/vm/check
