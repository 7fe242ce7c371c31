// SPDX-License-Identifier: Apache-2.0
#include "guest-allocator/cupti/parameters.h"

#include <cstring>
#include <type_traits>

#include "shm-device/rows/commands.h"

namespace barcuda::guest::cupti {
namespace {

// How x86-64's System V convention hands parameters over: six words in registers, two floats (no function has more),
// structs of more than two words and all the rest on the stack.
class CallWords {
  public:
    CallWords(const activity::Given& given, const std::uint64_t* on_stack, std::byte* to)
        : given_(given), stack_(on_stack), to_(to) {}
    template <class P> void next() {
        constexpr std::size_t words = (sizeof(P) + 7) / 8;
        const std::uint64_t* from = nullptr;
        if constexpr (std::is_floating_point_v<P>) {
            from = &given_.floats[floats_++];
        } else if (words <= 2 && words_ + words <= std::size(given_.words)) {
            from = &given_.words[words_];
            words_ += words;
        } else {
            from = stack_;
            stack_ += words;
        }
        at_ = (at_ + alignof(P) - 1) / alignof(P) * alignof(P);
        constexpr std::size_t bytes = sizeof(P);
        std::memcpy(to_ + at_, from, bytes);
        at_ += sizeof(P);
    }

  private:
    const activity::Given& given_;
    const std::uint64_t* stack_;
    std::byte* const to_;
    std::size_t words_ = 0, floats_ = 0, at_ = 0;
};

// Words that a call has on the stack, if all floats find registers.
template <class... P> constexpr std::size_t words_on_stack() {
    std::size_t in_registers = 0, on_stack = 0;
    [[maybe_unused]] const auto place = [&](std::size_t words, bool is_float) {
        if (is_float) return;
        if (words <= 2 && in_registers + words <= 6) in_registers += words;
        else on_stack += words;
    };
    (place((sizeof(P) + 7) / 8, std::is_floating_point_v<P>), ...);
    return on_stack;
}

template <class Prototype> struct Of;
template <class R, class... P> struct Of<R(P...)> {
    static_assert((0 + ... + ((sizeof(P) + 7) / 8 * 8)) <= most_parameter_bytes);
    static_assert((0 + ... + std::is_floating_point_v<P>) <= 2, "exports/admission.sh keeps two");
    static_assert(words_on_stack<P...>() <= 16, "exports/admission.sh copies 16");
    static void gather(const activity::Given& given, const std::uint64_t* on_stack, std::byte* to) noexcept {
        [[maybe_unused]] CallWords words(given, on_stack, to);
        (words.next<P>(), ...);
    }
};

struct Known {
    std::string_view name;
    Gather gather;
};
constexpr Known known[] = {
#define X(name, ...) {#name, Of<decltype(::name)>::gather},
    BARCUDA_DRIVER_ROWS(X)
#undef X
};

}  // namespace

Gather gather_of(std::string_view function) noexcept {
    if (function.ends_with("_ptsz") || function.ends_with("_ptds")) function.remove_suffix(5);
    for (const Known& each : known)
        if (each.name == function) return each.gather;
    return nullptr;
}

}  // namespace barcuda::guest::cupti
