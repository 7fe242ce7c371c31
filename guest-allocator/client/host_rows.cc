// SPDX-License-Identifier: Apache-2.0
#include "guest-allocator/client/host_rows.h"

#include <cstring>

#include <atomic>
#include <cstdio>

#include "base/os/output.h"
#include "shm-device/rows/needed.h"

namespace barcuda::guest::host_rows {
namespace {

const char* name_of(Op op) { return op_names[static_cast<std::size_t>(op)].data(); }  // literals: they end in a NUL

// Which side is the older one, as far as their versions tell.
const char* remedy(const char* build) {
    return strverscmp(build, BARCUDA_VERSION) > 0 ? "upgrade Barcuda in this guest"
                                                  : "upgrade barcuda-bridge on the host";
}

}  // namespace

constinit RowNumber numbers[static_cast<std::size_t>(Op::count)] = {};

Error learn(const Region& region, std::uint64_t& hash) noexcept {
    hash = match(identities, region.rows(), numbers);
    for (Op op : needed_rows) {
        if (numbers[static_cast<std::size_t>(op)] != no_row) continue;
        char build[65];
        region.build(build);
        return error(Error::other_rows, 0,
                     "%s: the bridge (Barcuda %s) has no %s as this library (Barcuda " BARCUDA_VERSION ") needs it: %s",
                     region.path(), build, name_of(op), remedy(build));
    }
    return {};
}

const char* name_at(std::uint32_t number) noexcept {
    for (std::size_t op = 0; op < op_names.size(); ++op)
        if (numbers[op] == number && number != no_row) return op_names[op].data();
    return "a posted command";
}

// Maybe in a malloc of the program's: nothing is allocated, and stdio is not touched.
CUresult missing(Op op, const Region& region) noexcept {
    static std::atomic<bool> told[static_cast<std::size_t>(Op::count)];
    if (told[static_cast<std::size_t>(op)].exchange(true, std::memory_order_relaxed)) return CUDA_ERROR_NOT_SUPPORTED;
    char build[65], line[256];
    region.build(build);
    const int n = std::snprintf(line, sizeof line, "barcuda: %s is not supported by this bridge (%s): %s\n",
                                name_of(op), build, remedy(build));
    if (n > 0) os::write_error(line, static_cast<std::size_t>(n));
    return CUDA_ERROR_NOT_SUPPORTED;
}

}  // namespace barcuda::guest::host_rows
