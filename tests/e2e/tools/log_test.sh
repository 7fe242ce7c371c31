#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# BARCUDA_LOG=debug says on standard error which calls of a program failed, and what was asked of the driver in vain; each
# by its name and with its result. Without it there is no such line.
. "$(dirname "$0")/../lib.sh"
program() { $run -- "$build/programs/$1" > "$scratch/out" 2> "$scratch/$1" || fail "$1: $(cat "$scratch/$1")"; }
said() { grep -q "^barcuda: $2" "$scratch/$1" || fail "$1 did not say '$2': $(cat "$scratch/$1")"; }
once() { [ "$(grep -c "^barcuda: .*$2" "$scratch/$1")" = 1 ] || fail "$1 did not say '$2' once: $(cat "$scratch/$1")"; }

for name in launch_errors launch_attributes export_tables; do
    program $name
    ! grep '^barcuda: ' "$scratch/$name" || fail "$name says this, which nobody has asked for"
done

export BARCUDA_LOG=debug
program launch_errors
said launch_errors 'try_launch: CUDA_ERROR_INVALID_VALUE (1)$'       # what the host's driver answered
said launch_errors 'cudaLaunchKernel: cudaErrorInvalidValue (1)$'  # and what came of it for the program
program launch_attributes
said launch_attributes 'a launch with attribute 63 is not supported'
program export_tables
once export_tables 'slot 4 of .* 1734DC26-800D-4745-8726-C0F1E7DD8BCA was called'
once export_tables 'asked for the driver.s table DA9151D3-3AE6-CC41-A5C0-4F26D533E328'
echo "each failure by its name"
