#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# In a guest without interrupts: a client that is killed gives its channel back, several clients run at once, a GPU fault is its
# program's own, doctor finds all well, and cdi finds its GPU. TRANSPORT is tests/vm/run's.
set -u
cd "$(dirname "$0")/../.." || exit 1
build=${BUILD:-build}
command -v qemu-system-x86_64 > /dev/null || { echo "skipped: qemu-system-x86_64 is not installed (make deps)"; exit 77; }
tests/vm/run --transport "${TRANSPORT:-plain}" --device "${DEVICE:-soft}" -- bash -c '
    await() { until grep -q running "$1" 2> /dev/null; do sleep 0.05; done; }
    fail() { echo "FAILED: $*"; exit 1; }
    '"$build"'/e2e/endless > /tmp/one & one=$!
    await /tmp/one
    '"$build"'/e2e/endless > /tmp/two & two=$!
    await /tmp/two
    '"$build"'/e2e/fault || fail "the GPU fault"
    kill -9 $one; wait $one
    for i in 1 2 3; do '"$build"'/programs/vector_add | grep -q PASSED || fail "a client beside others"; done
    '"$build"'/bin/barcuda doctor > /tmp/doctor && grep -q "As a guest" /tmp/doctor || fail "doctor: $(cat /tmp/doctor)"
    '"$build"'/bin/barcuda cdi | grep -q barcuda.dev/gpu || fail "no GPU for containers"
    kill -0 $two || fail "the other client ended: $(cat /tmp/two)"
    kill -9 $two
    echo passed'
