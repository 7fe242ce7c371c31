// SPDX-License-Identifier: Apache-2.0
// asked.h: what the program's profiler has asked for, and the clock that it reads. While it asks for nothing, calls are
// not looked at (client/activity.h).
#pragma once
#include <cupti.h>

#include <atomic>
#include <cstdint>

#include "guest-allocator/cupti/names.h"

namespace barcuda::guest::cupti {

constexpr std::uint64_t bit_of(CUpti_ActivityKind kind) noexcept { return std::uint64_t{1} << kind; }

// Functions of the two domains that have any, by their ids; any thread may look.
class Functions {
  public:
    bool has(CUpti_CallbackDomain domain, CUpti_CallbackId id) const noexcept {
        return of(domain)[id / 64].load(std::memory_order_relaxed) >> id % 64 & 1;
    }
    void set(CUpti_CallbackDomain domain, CUpti_CallbackId id, bool on) noexcept {
        const std::uint64_t bit = std::uint64_t{1} << id % 64;
        if (on) of(domain)[id / 64].fetch_or(bit, std::memory_order_relaxed);
        else of(domain)[id / 64].fetch_and(~bit, std::memory_order_relaxed);
    }
    void set_all(CUpti_CallbackDomain domain, bool on) noexcept {
        for (auto& word : of(domain)) word.store(on ? ~std::uint64_t{0} : 0, std::memory_order_relaxed);
    }
    bool any() const noexcept {
        for (const auto& domain : words_)
            for (const auto& word : domain)
                if (word.load(std::memory_order_relaxed)) return true;
        return false;
    }

  private:
    using Words = std::atomic<std::uint64_t>[most_ids / 64];
    Words& of(CUpti_CallbackDomain domain) noexcept { return words_[domain == CUPTI_CB_DOMAIN_RUNTIME_API]; }
    const Words& of(CUpti_CallbackDomain domain) const noexcept {
        return words_[domain == CUPTI_CB_DOMAIN_RUNTIME_API];
    }
    Words words_[2] = {};
};

struct Profiling {
    std::atomic<std::uint64_t> kinds{0};  // a bit each
    Functions recorded;                   // whose calls become records
    Functions heard;                      // whose calls the subscriber hears of
    std::atomic<CUpti_CallbackFunc> subscriber{nullptr};
    std::atomic<void*> subscribers_data{nullptr};
    std::atomic<CUpti_TimestampCallbackFunc> clock{nullptr};  // null: the system's
    std::atomic<CUpti_ActivityThreadIdType> thread_ids{CUPTI_ACTIVITY_THREAD_ID_TYPE_DEFAULT};

    bool has(CUpti_ActivityKind kind) const noexcept { return kinds.load(std::memory_order_relaxed) & bit_of(kind); }
};
extern Profiling asked;

// Nanoseconds since 1970, as CUPTI counts.
std::uint64_t system_time() noexcept;
// The same, or what the program's own clock says.
std::uint64_t now() noexcept;

// Calls are looked at from now on, or no longer: as `asked` wants it. (calls.cc)
void look_at_calls() noexcept;

// Ids that the program has pushed in this thread. (calls.cc)
CUptiResult push_id(CUpti_ExternalCorrelationKind kind, std::uint64_t id) noexcept;
CUptiResult pop_id(CUpti_ExternalCorrelationKind kind, std::uint64_t* last) noexcept;

}  // namespace barcuda::guest::cupti
