#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Real programs under the heap give the same results as without it. (tests/heap/programs.sh with no names runs more of them.)
cd "$(dirname "$0")/../.." && exec tests/heap/programs.sh "${BUILD:-build}/heap/libheap-test.so" bash perl python_data gxx make git sqlite3
