#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Random operations of many threads and forks, every byte verified, with every block in the region.
cd "$(dirname "$0")/../.." || exit 1
build=$PWD/${BUILD:-build}/heap
for threshold in 0 65536; do
    LD_PRELOAD=$build/libheap-test.so BARCUDA_HEAP=always BARCUDA_THRESHOLD=$threshold "$build/stress" 5 || exit 1
done
