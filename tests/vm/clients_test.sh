#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# In a guest without interrupts: a client that is killed gives its channel back, several clients run at once, and a GPU fault is its program's own.
set -u
cd "$(dirname "$0")/../.." || exit 1
build=${BUILD:-build}
command -v qemu-system-x86_64 > /dev/null || { echo "skipped: qemu-system-x86_64 is not installed (make deps)"; exit 77; }
tests/vm/run --plain --device "${DEVICE:-soft}" -- bash -c '
    await() { until grep -q running "$1" 2> /dev/null; do sleep 0.05; done; }
    fail() { echo "FAILED: $*"; exit 1; }
    '"$build"'/e2e/endless > /tmp/one & one=$!
    await /tmp/one
    '"$build"'/e2e/endless > /tmp/two & two=$!
    await /tmp/two
    '"$build"'/e2e/fault || fail "the GPU fault"
    kill -9 $one; wait $one
    for i in 1 2 3; do '"$build"'/programs/vector_add | grep -q PASSED || fail "a client beside others"; done
    kill -0 $two || fail "the other client ended: $(cat /tmp/two)"
    kill -9 $two
    echo passed'
