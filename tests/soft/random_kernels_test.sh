#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Random kernels compute the same as nvcc optimizes them and as it writes them for a debugger, interpreted and, a few of
# them, compiled to machine code.
cd "$(dirname "$0")/../.." || exit 1
nvcc=${NVCC:-/usr/local/cuda/bin/nvcc}
[ -x "$nvcc" ] || { echo "skipped: no nvcc"; exit 77; }
case ${BUILD:=build} in *-address* | *-thread*) echo "skipped: python cannot load a library with a sanitizer"; exit 77 ;; esac
export BUILD
# ptxas may leave the parts of a warp that exchanged among themselves apart (docs/testing.md).
if "$BUILD/soft/random_kernels" 1 300 | grep -E '_sync\(~?m,' | grep -v '__syncwarp(); }$'; then
    echo "FAILED: these parts of a warp are not joined"
    exit 1
fi
tests/soft/compare --nvcc "$nvcc" --count 60 --each 25 --output "$BUILD/soft/check" || exit 1
exec tests/soft/compare --nvcc "$nvcc" --compiled --seed 2 --count 4 --each 2 --output "$BUILD/soft/check-compiled"
