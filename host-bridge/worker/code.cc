// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/worker/code.h"

#include <exception>
#include <span>
#include <string_view>

#include "host-bridge/fatbin.h"

namespace barcuda {

bool Code::add_part(std::uint64_t place, const void* bytes, std::size_t size) {
    constexpr std::size_t most = 1 << 30;  // of the worker's own memory
    if (place == 0) drop_parts();
    if (place != parts_.size() || size > most - place) return drop_parts(), false;
    parts_.append(static_cast<const char*>(bytes), size);
    return true;
}

// Whether kernels of this image may print: they then name the function that does it. nvcc packs what it writes (what is
// not packed has been looked through by then). Bytes that cannot be unpacked are the driver's to judge.
bool Code::may_print(const LargeString& image) {
    constexpr std::string_view name = "vprintf";
    if (image.find(name) != image.npos) return true;
    try {
        for (const fatbin::Entry& entry : fatbin::entries(std::as_bytes(std::span(image))))
            if (entry.plain_size && fatbin::holds(entry, name)) return true;
    } catch (const std::exception&) {
    } catch (const fatbin::Error&) {}
    return false;
}

}  // namespace barcuda
