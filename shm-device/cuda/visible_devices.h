// SPDX-License-Identifier: Apache-2.0
// visible_devices.h: CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER, as NVIDIA's programming guide has them: which of a
// machine's devices a program sees, and in which order. The guest reads its program's; the bridge reads --gpus as such
// a list; the software GPU is a driver, and reads its own.
//
//   0,2               by number; spaces before and text behind a number's digits are passed over, as strtol does; of a
//                     number the lower 32 bits count
//   GPU-8932f937,...  by UUID, or by enough of its beginning to mean one device. The first entry says which kind a list
//                     has. No space before it; what is longer than a UUID means the one that it begins with
//                     (driver 580)
//   MIG-8932f937...   of a driver that shows a part of a GPU as a device: by that device's UUID, whole
//
// An entry that means no device ends the list: what stands before it counts (so -1 shows none). A device that is named
// twice leaves none.
#pragma once
#include <strings.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace barcuda {

struct DeviceId {
    const unsigned char* uuid;  // 16 bytes
    const char* pci_bus_id;
};

struct VisibleDevices {
    std::vector<int> numbers;  // of the machine's devices, in the order in which the program counts them
    std::string stopped_at;    // the entry that means none of them, or one of them again
    bool repeated = false;
    bool operator==(const VisibleDevices&) const = default;
};

inline std::string uuid_text(const unsigned char* uuid) {
    std::string text;
    for (int i = 0; i < 16; ++i) {
        char byte[3];
        std::snprintf(byte, sizeof byte, "%02x", uuid[i]);
        text += byte;
        if (i == 3 || i == 5 || i == 7 || i == 9) text += '-';
    }
    return text;
}

namespace visible {

// The device that an entry means; -1: none, or no single one.
inline int by_uuid(std::span<const DeviceId> devices, std::string_view digits, bool whole) {
    int found = -1;
    for (std::size_t i = 0; i < devices.size(); ++i) {
        const std::string uuid = uuid_text(devices[i].uuid);
        if (digits.empty() || (whole && digits.size() != uuid.size())) continue;
        if (strncasecmp(uuid.data(), digits.data(), std::min(digits.size(), uuid.size())) != 0) continue;
        if (found >= 0) return -1;
        found = static_cast<int>(i);
    }
    return found;
}
inline int by_number(std::span<const int> order, std::string_view entry) {
    const std::string text(entry);
    char* end = nullptr;
    const int number = static_cast<int>(std::strtoll(text.c_str(), &end, 10));
    return end == text.c_str() || number < 0 || number >= static_cast<int>(order.size())
               ? -1
               : order[static_cast<std::size_t>(number)];
}

}  // namespace visible

// `list`: CUDA_VISIBLE_DEVICES; `order`: CUDA_DEVICE_ORDER; each is null if it is not set. FASTEST_FIRST, the default,
// is the order that `devices` has.
inline VisibleDevices visible_devices(std::span<const DeviceId> devices, const char* list, const char* order) {
    VisibleDevices seen;
    std::vector<int> counted(devices.size());
    std::iota(counted.begin(), counted.end(), 0);
    if (order && std::string_view(order) == "PCI_BUS_ID")
        std::stable_sort(counted.begin(), counted.end(), [&](int a, int b) {
            return strcasecmp(devices[static_cast<std::size_t>(a)].pci_bus_id,
                              devices[static_cast<std::size_t>(b)].pci_bus_id) < 0;
        });
    if (!list) {
        seen.numbers = counted;
        return seen;
    }
    constexpr std::string_view gpu = "GPU-", mig = "MIG-";
    const std::string_view text = list;
    const std::string_view kind = text.starts_with(gpu) ? gpu : text.starts_with(mig) ? mig : "";
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t comma = std::min(text.find(',', at), text.size());
        const std::string_view entry = text.substr(at, comma - at);
        at = comma + 1;
        int device = -1;
        if (kind.empty()) device = visible::by_number(counted, entry);
        else if (entry.starts_with(kind)) device = visible::by_uuid(devices, entry.substr(kind.size()), kind == mig);
        seen.repeated = std::ranges::find(seen.numbers, device) != seen.numbers.end();
        if (seen.repeated) seen.numbers.clear();
        if (device < 0 || seen.repeated) {
            seen.stopped_at = entry;
            return seen;
        }
        seen.numbers.push_back(device);
    }
    return seen;
}

}  // namespace barcuda
