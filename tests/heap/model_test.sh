#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Random operations on every entry of the heap agree with a model, and end with no extent granted. Longer:
# build/heap/model --seconds 600
cd "$(dirname "$0")/../.." && exec "${BUILD:-build}/heap/model" --seconds 8
