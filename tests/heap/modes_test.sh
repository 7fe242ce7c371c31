#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What BARCUDA_HEAP and BARCUDA_THRESHOLD promise.
cd "$(dirname "$0")/../.." && exec tests/heap/modes.sh "${BUILD:-build}/heap/libheap-test.so"
