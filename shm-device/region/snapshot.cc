// SPDX-License-Identifier: Apache-2.0
#include "shm-device/region/snapshot.h"

#include <algorithm>
#include <atomic>

#include "base/os/clock.h"
#include "shm-device/queue/sync.h"

namespace barcuda::snapshot {
namespace {

// Word by word, so that a copy which meets a writer is stale and not undefined. Bytes are a multiple of 8, and so are
// both addresses.
void copy_out(void* to, const void* from, std::size_t bytes) noexcept {
    auto* t = static_cast<std::uint64_t*>(to);
    auto* f = static_cast<const std::uint64_t*>(from);
    for (std::size_t i = 0; i < bytes / 8; ++i)
        t[i] = std::atomic_ref<std::uint64_t>(const_cast<std::uint64_t&>(f[i])).load(std::memory_order_relaxed);
}
void copy_in(void* to, const void* from, std::size_t bytes) noexcept {
    auto* t = static_cast<std::uint64_t*>(to);
    auto* f = static_cast<const std::uint64_t*>(from);
    for (std::size_t i = 0; i < bytes / 8; ++i)
        std::atomic_ref<std::uint64_t>(t[i]).store(f[i], std::memory_order_relaxed);
}

const std::byte* at(const barcuda_snapshot& snapshot, std::size_t offset) noexcept {
    return reinterpret_cast<const std::byte*>(&snapshot) + offset;
}
bool within(std::size_t offset, std::size_t bytes) noexcept {
    return offset % 8 == 0 && offset <= BARCUDA_SNAPSHOT_SIZE && bytes <= BARCUDA_SNAPSHOT_SIZE - offset;
}

// A writer is done in some microseconds, unless it is not running, or died.
constexpr std::uint64_t patience_ns = 1'000'000'000, nap_ns = 100'000;
constexpr int spins = 1'000;

template <class Copy> Read consistently(const barcuda_snapshot& snapshot, const Copy& copy) noexcept {
    std::uint64_t start = 0;
    for (int tries = 0;; ++tries) {
        const std::uint64_t before = observe(snapshot.sequence);  // WORD
        if (before == 0) return Read::empty;
        if (before % 2 == 0) {
            const Read result = copy();
            Smp::fence();
            if (observe(snapshot.sequence) == before) return result;
        }
        if (tries < spins) continue;
        if (start == 0) start = os::now();
        if (os::now() - start > patience_ns) return Read::busy;
        os::nap(nap_ns);
    }
}

}  // namespace

Read answer(const barcuda_snapshot& snapshot, std::uint64_t identity, std::size_t n, std::size_t count,
            std::span<std::byte> to) noexcept {
    return consistently(snapshot, [&] {
        const std::uint32_t rows = observe(snapshot.answer_count);
        if (!within(sizeof snapshot, std::size_t{rows} * sizeof(barcuda_answers))) return Read::absent;
        for (std::uint32_t i = 0; i < rows; ++i) {
            const auto& row = reinterpret_cast<const barcuda_answers*>(at(snapshot, sizeof snapshot))[i];
            if (observe(row.identity) != identity) continue;
            const std::size_t offset = observe(row.offset), bytes = observe(row.bytes);
            if (bytes != count * to.size() || n >= count || !within(offset, bytes)) return Read::absent;
            copy_out(to.data(), at(snapshot, offset + n * to.size()), to.size());
            return Read::done;
        }
        return Read::absent;
    });
}

Read processes(const barcuda_snapshot& snapshot, std::span<barcuda_process> to, std::size_t& found) noexcept {
    return consistently(snapshot, [&] {
        const std::size_t there = observe(snapshot.process_count), offset = observe(snapshot.processes_offset);
        if (!within(offset, there * sizeof(barcuda_process))) return Read::absent;
        found = there;
        copy_out(to.data(), at(snapshot, offset), std::min(there, to.size()) * sizeof(barcuda_process));
        return Read::done;
    });
}

Read paused(const barcuda_snapshot& snapshot, PausedClients& to) noexcept {
    return answer(snapshot, paused_clients, 0, 1, std::as_writable_bytes(std::span(to)));
}

std::uint32_t contents_offset(std::size_t answers) noexcept {
    return static_cast<std::uint32_t>(sizeof(barcuda_snapshot) + answers * sizeof(barcuda_answers));
}

void write(barcuda_snapshot& snapshot, const Sweep& sweep) noexcept {
    auto* const bytes = reinterpret_cast<std::byte*>(&snapshot);
    const std::uint32_t contents = contents_offset(sweep.answers.size());
    const auto processes = static_cast<std::uint32_t>(contents + sweep.contents.size());
    const std::uint64_t now = observe(snapshot.sequence) | 1;  // an earlier writer may have died while it wrote
    std::atomic_ref<std::uint64_t>(snapshot.sequence).store(now, std::memory_order_relaxed);
    Smp::fence();
    copy_in(bytes + sizeof snapshot, sweep.answers.data(), sweep.answers.size_bytes());
    copy_in(bytes + contents, sweep.contents.data(), sweep.contents.size());
    copy_in(bytes + processes, sweep.processes.data(), sweep.processes.size_bytes());
    publish(snapshot.answer_count, static_cast<std::uint32_t>(sweep.answers.size()));
    publish(snapshot.process_count, static_cast<std::uint32_t>(sweep.processes.size()));
    publish(snapshot.processes_offset, processes);
    publish(snapshot.taken, sweep.taken);
    publish(snapshot.sequence, now + 1);  // WORD
}

}  // namespace barcuda::snapshot
