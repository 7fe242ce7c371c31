// SPDX-License-Identifier: Apache-2.0
// limits.h: the one table of the limits of a guest and of each of its clients. It gives the options of the bridge and
// the keys of its configuration file (--client-NAME, --guest-NAME), what `barcuda limit` prints and sets, and the table
// of docs/limits.md. That page also says which process enforces a limit: the bridge if it grants the resource, a worker
// if only the worker can count it.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "shm-device/layout.h"

namespace barcuda {

enum class Of : unsigned { client = 1, guest = 2, both = 3 };
enum class Unit : unsigned { bytes, count, bytes_a_second, count_a_second, on_or_off };

//    name           of      unit            default, 0: none
//    what it is
#define BARCUDA_LIMITS(X)                                                                                              \
    X(device_memory, both, bytes, 0,                                                                                   \
      "device memory of each GPU, however it is allocated; programs see it as the GPU's size")                         \
    X(region_memory, both, bytes, 0, "memory of the region: pinned memory, and what malloc takes from it")             \
    X(channels, guest, count, 0, "clients at a time")                                                                  \
    X(starts, guest, count_a_second, 64, "clients that get a worker; others wait")                                     \
    X(objects, client, count, 0, "streams, events, modules, functions, graphs, their nodes: everything with a handle") \
    X(work, client, count, 0, "launches, copies and other work that the GPU has received and not finished")            \
    X(printf_text, client, bytes, 0, "text that kernels have printed and the program has not taken; more is dropped")  \
    X(log_text, both, bytes_a_second, 8 << 10,                                                                         \
      "text in the host's log: a client's is that of its worker, a guest's that of the bridge itself, and as much "    \
      "again of all its workers")                                                                                      \
    X(worker_memory, client, bytes, 0, "host memory of a worker, beyond what it has when its client connects")         \
    X(paused_memory, guest, bytes, 0, "host memory for what paused clients otherwise have on the GPUs")                \
    X(store_memory, both, bytes, 0, "host memory for what has left a shared GPU (--cards, --store)")                   \
    X(memory_pinned, both, on_or_off, 0, "device memory stays on a shared GPU, even while others wait for it")

enum class Limit : unsigned {
#define X(name, ...) name,
    BARCUDA_LIMITS(X)
#undef X
        count
};
constexpr unsigned limit_count = static_cast<unsigned>(Limit::count);
// Those that a worker's sheet has (link.h). Behind them are some that no worker needs to know: a new one is among
// these, or the sheet changes and the link with it.
constexpr unsigned limits_in_sheet = static_cast<unsigned>(Limit::store_memory);

struct AboutLimit {
    const char *its_name, *what;
    Of of;
    Unit unit;
    std::uint64_t usual;
    bool is_rate() const { return unit == Unit::bytes_a_second || unit == Unit::count_a_second; }
    bool is(Of whose) const { return static_cast<unsigned>(of) & static_cast<unsigned>(whose); }
    std::string name() const;               // device-memory
    std::string option(Of whose) const;     // client-device-memory
    std::string help(Of whose) const;       // a sentence, with the unit
    std::string text(std::uint64_t) const;  // of a value: 1.5G
};
const AboutLimit& about(Limit limit);

// A value for each limit; 0: no limit, or off.
struct Limits {
    std::array<std::uint64_t, limit_count> all{};
    std::uint64_t& operator[](Limit limit) { return all[static_cast<unsigned>(limit)]; }
    std::uint64_t operator[](Limit limit) const { return all[static_cast<unsigned>(limit)]; }
};

// The bridge's limits: those of the guest, and those of each client that has none of its own.
struct LimitOptions {
    Limits client, guest;
    LimitOptions() {
#define X(name, of, unit, usual, what) client[Limit::name] = guest[Limit::name] = usual;
        BARCUDA_LIMITS(X)
#undef X
    }
};

template <class F> void each_limit(const F& f) {
    for (unsigned i = 0; i < limit_count; ++i) f(static_cast<Limit>(i), about(static_cast<Limit>(i)));
}

// The smaller of two limits; 0 means no limit.
constexpr std::uint64_t least(std::uint64_t a, std::uint64_t b) { return a == 0 || (b != 0 && b < a) ? b : a; }

}  // namespace barcuda
