// SPDX-License-Identifier: Apache-2.0
// statistics.h: what the heap and the copies did, counted where it happens and printed at exit when BARCUDA_STATS is
// set (to 1: on stderr; to a path: appended there). It answers one question: why was this copy not zero-copy?
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace barcuda::heap {

// A count that many threads add to and that orders nothing.
struct Count {
    std::atomic<std::uint64_t> value{0};
    void add(std::uint64_t n = 1) noexcept { value.fetch_add(n, std::memory_order_relaxed); }
    std::uint64_t get() const noexcept { return value.load(std::memory_order_relaxed); }
};

struct Copies {
    Count calls, bytes;
    void add(std::size_t n) noexcept {
        calls.add();
        bytes.add(n);
    }
};

// Why registered memory outside the region did not become region memory in place.
enum class Refusal { foreign, stack, shared_page, full, no_faults, refusals };

struct Statistics {
    // The driver layer's: each host side of a copy is one of these.
    Copies zero_copy;  // source or target lay in the region
    Copies inlined;    // rode inside the command
    Copies staged;     // went through a staging buffer

    // Managed memory's: what migrated between its two sides, and how often the CPU had to wait for that.
    Copies managed_to_device, managed_to_host;
    Count managed_faults;

    // The heap's.
    Count grants, releases;           // extents
    Count granted_bytes;              // held now
    Count peak_bytes;                 // most that was held
    Count fallbacks, fallback_bytes;  // allocations meant for the region that went to ordinary memory
    Count forks, fork_bytes;          // snapshots taken in children, and what was copied (parent's count stays)
    Count lent, lent_bytes;           // registrations of memory outside that became zero-copy in place
    Count not_lent[static_cast<std::size_t>(Refusal::refusals)];  // and those that did not
};
extern Statistics statistics;

// The table, to a descriptor.
void report(int fd) noexcept;
void report_at_exit(const char* destination) noexcept;
void forget_statistics() noexcept;  // in a child: the counts are the parent's

}  // namespace barcuda::heap
