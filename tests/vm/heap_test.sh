#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Memory that is registered changes places under the threads that use it on the guest's kernel, too, which is older than
# many hosts', and for a user without rights, whose system calls no process may hold up (UFFD_USER_MODE_ONLY).
set -u
cd "$(dirname "$0")/../.." || exit 1
build=${BUILD:-build}
command -v qemu-system-x86_64 > /dev/null || { echo "skipped: qemu-system-x86_64 is not installed (make deps)"; exit 77; }
out=$(mktemp)
trap 'rm -f "$out"' EXIT
tests/vm/run --no-library --bridge "$build/vm-tests/stub_bridge" --env BARCUDA_TEST_ROUNDS=20 -- "$build/tests/heap_loan_test" --gtest_brief=1 > "$out" 2>&1
status=$?
cat "$out"
[ $status = 0 ] && grep -q PASSED "$out" && ! grep -q SKIPPED "$out"
