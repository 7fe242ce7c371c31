// SPDX-License-Identifier: Apache-2.0
#include "shm-device/rows/identity.h"

#include "shm-device/rows/library_commands.h"

namespace barcuda {

constinit const std::array<std::uint64_t, static_cast<std::size_t>(Op::count)> identities{
#define X(name, way, traits, ...) Identity<RowOf<Op::name>::Arguments>::of(#name, how::way, #__VA_ARGS__),
    BARCUDA_ROWS(X)
#undef X
};
std::span<const std::uint64_t> row_identities() { return identities; }

std::span<const RowText> row_texts() {
    static constexpr RowText texts[] = {
#define X(name, how, ...) {#name, #how},
        BARCUDA_ROWS(X)
#undef X
    };
    return texts;
}

}  // namespace barcuda
