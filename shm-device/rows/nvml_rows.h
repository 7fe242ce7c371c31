// SPDX-License-Identifier: Apache-2.0
// nvml_rows.h: what a row of rows/nvml.h means. NVML's questions have few possible arguments: a device, a link, a
// clock. So the host asks each question with all of them, writes the answers into the snapshot, and a guest looks its
// answer up: a call costs no round trip, and needs neither channel nor worker (docs/decisions/0038-nvml-snapshot.md).
// From a row come
//
//   the exported function        guest-allocator/nvml/remote.cc
//   the pointer into the host's NVML, and asking it    host-bridge/monitor/sweep.cc
//   the identity by which guest and host of other builds know it
//
//   X(function, once|each, one kind per parameter, or per pair of them...)
//
//   once    what does not change while the driver runs: asked when the monitor starts
//   each    asked in each sweep
//
// Types come from the kinds. A kind is a struct with both sides' halves:
//
//   device, peer       nvmlDevice_t: a key with as many values as there are devices
//   key<N>             a number or an enumeration below N
//   out<T>             T*, filled
//   text<N>            char* and unsigned: a string, and its room
//   versions<V...>     T* to a structure that begins with the version that the caller means: one of V
//   list<T, N>         unsigned* and T*: how many there are, N at most, and what they are
//   fields             int and nvmlFieldValue_t*: field_ranges of nvml.h
#pragma once
#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/hash.h"
#include "shm-device/cuda/nvml.h"
#include "shm-device/layout.h"
#include "shm-device/rows/nvml.h"

namespace barcuda::nvml {

// The guest's nvmlDevice_t values are Guest::handle(i); the host's are those of its NVML.
struct Guest {
    static constexpr std::uintptr_t first = 0x42415243;  // no address: a handle is never dereferenced
    static Device handle(unsigned index) { return reinterpret_cast<Device>(first + index); }
    static unsigned index(Device device) {  // of no device: a large number
        const std::uintptr_t n = reinterpret_cast<std::uintptr_t>(device) - first;
        return n < BARCUDA_MAX_DEVICES ? static_cast<unsigned>(n) : ~0u;
    }
};

namespace kind {

struct Nothing {};

struct device {
    using Parameters = std::tuple<Device>;
    using Stored = Nothing;
    static constexpr unsigned keys(unsigned devices) { return devices; }
    static Parameters ask(const Device* devices, unsigned key, Stored&) { return {devices[key]}; }
    static Status find(const Parameters& given, unsigned devices, unsigned& key) {
        key = Guest::index(std::get<0>(given));
        return key < devices ? success : invalid_argument;
    }
    static Status give(const Stored&, const Parameters&) { return success; }
};
using peer = device;

template <unsigned N> struct key {
    using Parameters = std::tuple<unsigned>;
    using Stored = Nothing;
    static constexpr unsigned keys(unsigned) { return N; }
    static Parameters ask(const Device*, unsigned key, Stored&) { return {key}; }
    static Status find(const Parameters& given, unsigned, unsigned& key) {
        key = std::get<0>(given);
        return key < N ? success : invalid_argument;
    }
    static Status give(const Stored&, const Parameters&) { return success; }
};

struct one_key {  // of kinds that are no key
    static constexpr unsigned keys(unsigned) { return 1; }
};

template <class T> struct out : one_key {
    using Parameters = std::tuple<T*>;
    using Stored = T;
    static Parameters ask(const Device*, unsigned, Stored& stored) { return {&stored}; }
    static Status find(const Parameters& given, unsigned, unsigned& key) {
        key = 0;
        return std::get<0>(given) ? success : invalid_argument;
    }
    static Status give(const Stored& stored, const Parameters& given) {
        *std::get<0>(given) = stored;
        return success;
    }
};

template <unsigned N> struct text : one_key {
    using Parameters = std::tuple<char*, unsigned>;
    struct Stored {
        char text[N];
    };
    static Parameters ask(const Device*, unsigned, Stored& stored) { return {stored.text, N}; }
    static Status find(const Parameters& given, unsigned, unsigned& key) {
        key = 0;
        return std::get<0>(given) ? success : invalid_argument;
    }
    static Status give(const Stored& stored, const Parameters& given) {
        const std::size_t length = strnlen(stored.text, N - 1);
        const auto [at, room] = given;
        if (length >= room) return insufficient_size;
        std::memcpy(at, stored.text, length);
        at[length] = '\0';
        return success;
    }
};

template <class T, unsigned number> struct version {
    using Type = T;
    static constexpr unsigned value = version_of<T, number>;
};
template <class... V> struct versions {
    static constexpr unsigned values[] = {V::value...};
    static constexpr std::size_t sizes[] = {sizeof(typename V::Type)...};
    using Parameters = std::tuple<void*>;
    struct alignas(8) Stored {
        char bytes[std::max({sizeof(typename V::Type)...})];
    };
    static constexpr unsigned keys(unsigned) { return sizeof...(V); }
    static Parameters ask(const Device*, unsigned key, Stored& stored) {
        std::memcpy(stored.bytes, &values[key], sizeof values[key]);
        return {stored.bytes};
    }
    static Status find(const Parameters& given, unsigned, unsigned& key) {
        unsigned wanted = 0;
        if (!std::get<0>(given)) return invalid_argument;
        std::memcpy(&wanted, std::get<0>(given), sizeof wanted);
        key = static_cast<unsigned>(std::find(std::begin(values), std::end(values), wanted) - values);
        return key < sizeof...(V) ? success : argument_version_mismatch;
    }
    static Status give(const Stored& stored, const Parameters& given) {
        unsigned meant = 0, key = 0;
        find(given, 0, key);
        std::memcpy(&meant, stored.bytes, sizeof meant);
        if (key >= sizeof...(V) || meant != values[key]) return unknown;
        std::memcpy(std::get<0>(given), stored.bytes, sizes[key]);
        return success;
    }
};

template <class T, unsigned N> struct list : one_key {
    using Parameters = std::tuple<unsigned*, T*>;
    struct Stored {
        unsigned count;
        T items[N];
    };
    static Parameters ask(const Device*, unsigned, Stored& stored) {
        stored.count = N;
        return {&stored.count, stored.items};
    }
    static Status find(const Parameters& given, unsigned, unsigned& key) {
        key = 0;
        return std::get<0>(given) ? success : invalid_argument;
    }
    static Status give(const Stored& stored, const Parameters& given) {
        const auto [count, items] = given;
        const unsigned there = std::min(stored.count, N), room = items ? *count : 0;
        *count = there;
        if (room < there) return insufficient_size;
        std::copy_n(stored.items, there, items);
        return success;
    }
};

struct fields : one_key {
    using Parameters = std::tuple<int, FieldValue*>;
    struct Stored {
        FieldValue values[count_fields()];
    };
    static Parameters ask(const Device*, unsigned, Stored& stored) {
        std::size_t n = 0;
        for (const FieldRange& r : field_ranges)
            for (unsigned field = r.first; field <= r.last; ++field)
                for (unsigned scope = 0; scope < r.scopes + r.all; ++scope, ++n) {
                    // Of a value whose status says already that it failed NVIDIA's NVML (580) looks up no link.
                    FieldValue& value = stored.values[n] = {};
                    value.field = field;
                    value.scope = scope < r.scopes ? scope : all_links;
                }
        return {static_cast<int>(n), stored.values};
    }
    static Status find(const Parameters& given, unsigned, unsigned& key) {
        key = 0;
        return std::get<0>(given) > 0 && std::get<1>(given) ? success : invalid_argument;
    }
    static Status give(const Stored& stored, const Parameters& given) {
        for (FieldValue& value : std::span(std::get<1>(given), static_cast<std::size_t>(std::get<0>(given)))) {
            const std::size_t place = place_of_field(value.field, value.scope);
            const unsigned scope = value.scope;
            if (place < count_fields()) {
                value = stored.values[place];
                value.scope = scope;
            } else value.status = not_supported;
        }
        return success;
    }
};

}  // namespace kind

enum class When { once, each, seldom };  // seldom: every ten seconds, since they take long

// How an answer lies in the snapshot: a status, then what each kind stores, each at a multiple of its own alignment,
// and room up to a multiple of 8.
template <class... Kinds> struct Shape {
    static constexpr std::size_t kinds = sizeof...(Kinds);
    template <std::size_t I> using Kind = std::tuple_element_t<I, std::tuple<Kinds...>>;
    using Parameters = decltype(std::tuple_cat(std::declval<typename Kinds::Parameters>()...));

    template <class T> static constexpr std::size_t room = std::is_empty_v<T> ? 0 : sizeof(T);
    static constexpr std::array<std::size_t, kinds + 1> places = [] {
        std::array<std::size_t, kinds + 1> at{};
        std::size_t i = 0, end = sizeof(Status);
        const auto place = [&](std::size_t bytes, std::size_t alignment) {
            at[i] = (end + alignment - 1) / alignment * alignment;
            end = at[i++] + bytes;
        };
        (place(room<typename Kinds::Stored>, alignof(typename Kinds::Stored)), ...);
        place(0, 8);
        return at;
    }();
    static constexpr std::array<std::size_t, kinds + 1> firsts = [] {  // parameters
        std::array<std::size_t, kinds + 1> at{};
        std::size_t i = 0;
        const auto place = [&](std::size_t parameters) {
            at[i + 1] = at[i] + parameters;
            ++i;
        };
        (place(std::tuple_size_v<typename Kinds::Parameters>), ...);
        return at;
    }();
    static constexpr std::size_t bytes = places[kinds];  // of one answer
    static constexpr std::size_t answers(unsigned devices) { return (std::size_t{1} * ... * Kinds::keys(devices)); }

    struct alignas(8) Answer {
        std::byte memory[bytes] = {};
        Status status() const {
            Status s;
            std::memcpy(&s, memory, sizeof s);
            return s;
        }
        void set(Status s) { std::memcpy(memory, &s, sizeof s); }
        template <std::size_t I> auto& stored() {
            return *reinterpret_cast<typename Kind<I>::Stored*>(memory +
                                                                (room<typename Kind<I>::Stored> ? places[I] : 0));
        }
    };

    // ---- the host: answer number `n`
    template <class Function>
    static Status ask(Function* function, const Device* devices, unsigned count, std::size_t n, Answer& answer) {
        std::array<unsigned, kinds> key{};
        const std::array<unsigned, kinds> keys{Kinds::keys(count)...};
        for (std::size_t i = kinds; i-- > 0; n /= keys[i]) key[i] = static_cast<unsigned>(n % keys[i]);
        return [&]<std::size_t... I>(std::index_sequence<I...>) {
            return std::apply(function, std::tuple_cat(Kind<I>::ask(devices, key[I], answer.template stored<I>())...));
        }
        (std::make_index_sequence<kinds>());
    }

    // ---- the guest
    template <std::size_t I> static auto part(const Parameters& all) {
        return [&]<std::size_t... J>(std::index_sequence<J...>) {
            return typename Kind<I>::Parameters{std::get<firsts[I] + J>(all)...};
        }
        (std::make_index_sequence<firsts[I + 1] - firsts[I]>());
    }
    static Status find(const Parameters& all, unsigned devices, std::size_t& n) {
        Status status = success;
        n = 0;
        [&]<std::size_t... I>(std::index_sequence<I...>) {
            const auto step = [&](auto find, unsigned keys) {
                unsigned key = 0;
                if (status == success) status = find(key);
                n = n * keys + key;
            };
            (step([&](unsigned& key) { return Kind<I>::find(part<I>(all), devices, key); }, Kind<I>::keys(devices)),
             ...);
        }
        (std::make_index_sequence<kinds>());
        return status;
    }
    static Status give(Answer& answer, const Parameters& all) {
        Status status = answer.status();
        [&]<std::size_t... I>(std::index_sequence<I...>) {
            ((status = status == success ? Kind<I>::give(answer.template stored<I>(), part<I>(all)) : status), ...);
        }
        (std::make_index_sequence<kinds>());
        return status;
    }

    // Two builds know a row as the same by this.
    static constexpr std::uint64_t identity(std::string_view name, std::string_view spelled) {
        return Hash().text(name).text(" nvml ").text(spelled).number(bytes).value();
    }
};

template <class Parameters> struct FunctionOf;
template <class... P> struct FunctionOf<std::tuple<P...>> { using type = Status(P...); };

enum class Question : unsigned {
#define X(name, ...) name,
    BARCUDA_NVML_ROWS(X)
#undef X
        count
};
inline constexpr const char* question_names[] = {
#define X(name, ...) #name,
    BARCUDA_NVML_ROWS(X)
#undef X
};

namespace kind {  // where rows find their kinds
template <Question> struct RowOf;
#define X(name, when, ...)                                                                           \
    template <> struct RowOf<Question::name> : Shape<__VA_ARGS__> {                                  \
        static constexpr std::uint64_t identity = Shape<__VA_ARGS__>::identity(#name, #__VA_ARGS__); \
        static constexpr When how_often = When::when;                                                \
    };
BARCUDA_NVML_ROWS(X)
#undef X
}  // namespace kind
using kind::RowOf;
template <Question q> using Function = typename FunctionOf<typename RowOf<q>::Parameters>::type;

// The whole of a snapshot, if there are so many devices.
constexpr std::size_t bytes_of_snapshot(unsigned devices) {
    std::size_t bytes = sizeof(barcuda_snapshot) + BARCUDA_MAX_PROCESSES * sizeof(barcuda_process) +
                        sizeof(barcuda_answers) + BARCUDA_MAX_CHANNELS * 8;  // the paused clients: snapshot.h
#define X(name, ...) \
    bytes += sizeof(barcuda_answers) + RowOf<Question::name>::bytes * RowOf<Question::name>::answers(devices);
    BARCUDA_NVML_ROWS(X)
#undef X
    return bytes;
}
static_assert(bytes_of_snapshot(BARCUDA_MAX_DEVICES) <= BARCUDA_SNAPSHOT_SIZE, "fewer fields, or a larger part");

}  // namespace barcuda::nvml
