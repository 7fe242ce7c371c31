// SPDX-License-Identifier: Apache-2.0
// host_rows.h: our rows of the command table as the bridge numbers them. The bridge may be older or newer than this
// library: what it lacks is never sent, and answers CUDA_ERROR_NOT_SUPPORTED by name.
#pragma once
#include <cuda.h>

#include "shm-device/region/region.h"
#include "shm-device/rows/identity.h"

namespace barcuda::guest::host_rows {

// By Op; no_row: the bridge has no such command. Written once, before any thread gets the client.
extern RowNumber numbers[static_cast<std::size_t>(Op::count)];

// Reads the bridge's table. An error if the bridge lacks a row that every program needs. `hash`: of what was read.
Error learn(const Region& region, std::uint64_t& hash) noexcept;

// What has that number at the bridge, for messages.
const char* name_at(std::uint32_t number) noexcept;

// Says, once for each command, that the bridge lacks it.
CUresult missing(Op op, const Region& region) noexcept;

}  // namespace barcuda::guest::host_rows
