#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A few pauses, kills of bridges, and upgrades to the same bridge, under programs that compute what they always do. By hand hundreds of each:
# tests/hostile/lives --help.
cd "$(dirname "$0")/../.." || exit 1
exec tests/hostile/lives pauses kills upgrades --build "${BUILD:-build}" --device "${DEVICE:-soft}" --times 12 --longest 1 --bridges 2 \
    --clients 4 --seeds 1 --seed "${SEED:-1}"
