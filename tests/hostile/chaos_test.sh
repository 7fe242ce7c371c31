#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Two hundred kills: clients, workers, bridges, under 32 clients. (A full file system, a region that is cut short or is none, few descriptors: tests of
# their own, tests/e2e/lives/test_full_memory.py, test_foreign_region.py, test_few_descriptors.py.)
cd "$(dirname "$0")/../.." || exit 1
exec tests/hostile/chaos --build "${BUILD:-build}" --device "${DEVICE:-soft}" --kills 200 --seconds 60 --seed "${SEED:-1}"
