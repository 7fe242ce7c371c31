#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A Python program that finds the driver by ctypes (tests/bench/applications): its kernel doubles numbers that go to the GPU and come back.
. "$(dirname "$0")/../lib.sh"
$run -- python3 -B tests/bench/applications/ctypes_applications.py > "$scratch/out" 2>&1 || fail "$(cat "$scratch/out")"
sum=$(python3 -c 'print(float(sum(2 * (i % 1000) for i in range(1 << 18))))')
grep -q "\"app_copy_kernel_copy\".*\"result\": \[$sum, 2.0, 286.0\]" "$scratch/out" || fail "other numbers: $(cat "$scratch/out")"
echo passed
