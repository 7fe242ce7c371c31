// SPDX-License-Identifier: Apache-2.0
// library.h: the guest's NVML: a region, opened by nvmlInit. Its answers are those of the host's NVML, at most a second
// old. A channel of its own, which names no devices and so has no worker, carries the requests for new values.
#pragma once
#include <algorithm>
#include <span>

#include "shm-device/queue/sync.h"
#include "shm-device/region/region.h"
#include "shm-device/rows/nvml_rows.h"

#define NVML extern "C" [[gnu::visibility("default")]] barcuda::nvml::Status

extern "C" const char* nvmlErrorString(barcuda::nvml::Status status);

namespace barcuda::guest::nvml {

using namespace barcuda::nvml;  // what NVML takes and gives, and its questions

// Whether questions can be asked: nvmlInit has been called, and the bridge lives.
Status ready() noexcept;
const Region& region() noexcept;  // while ready
// A bridge that takes the region over may have others: what was checked when the region was opened may have changed.
inline unsigned device_count() noexcept { return region().device_count(); }

// The host's answer, as it lies in the snapshot.
Status look_up(std::uint64_t identity, When how_often, std::size_t n, std::size_t count,
               std::span<std::byte> answer) noexcept;
// At most `to.size()` of the processes of this guest that use a GPU; `found`: how many they are.
Status processes(std::span<barcuda_process> to, std::size_t& found) noexcept;

Status init() noexcept;
Status shut_down() noexcept;

// With BARCUDA_LOG=debug it says what failed, and passes the status on.
Status note(const char* function, Status status) noexcept;

// A function of the table.
template <Question q, class Parameters = typename RowOf<q>::Parameters> struct Ask;
template <Question q, class... P> struct Ask<q, std::tuple<P...>> {
    using Row = RowOf<q>;
    static Status ask(P... given) noexcept {
        if (Status s = ready(); s != success) return s;
        const std::tuple<P...> all(given...);
        const unsigned devices = device_count();
        std::size_t n = 0;
        if (Status s = Row::find(all, devices, n); s != success) return s;
        typename Row::Answer answer;
        if (Status s = look_up(Row::identity, Row::how_often, n, Row::answers(devices), answer.memory); s != success)
            return s;
        return Row::give(answer, all);
    }
    static Status function(P... given) noexcept {
        return note(question_names[static_cast<std::size_t>(q)], ask(given...));
    }
};
template <Question q, class... P> Status ask(P... given) noexcept { return Ask<q>::ask(given...); }

}  // namespace barcuda::guest::nvml
