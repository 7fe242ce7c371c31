// SPDX-License-Identifier: Apache-2.0
// known.h: what a hostile client has learned from replies: its objects by type, its memory, tokens of others'. And what
// it draws from that: mostly something that is so, sometimes something that is not.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <random>
#include <span>
#include <unordered_map>
#include <vector>

#include "shm-device/rows/library_commands.h"

namespace barcuda::hostile {

class Random {
  public:
    explicit Random(std::uint64_t seed) : engine_(seed) {}
    std::uint64_t word() { return engine_(); }
    std::uint64_t below(std::uint64_t n) { return n ? engine_() % n : 0; }
    std::uint64_t between(std::uint64_t low, std::uint64_t high) { return low + below(high - low + 1); }
    bool chance(double percent) { return static_cast<double>(below(1'000'000)) < percent * 1e4; }
    template <class T> T one_of(std::initializer_list<T> of) { return of.begin()[below(of.size())]; }
    template <class C> auto& pick(C& of) { return of[below(std::size(of))]; }

  private:
    std::mt19937_64 engine_;
};

using Tag = const void*;  // of a type of objects
template <class T> inline constexpr char tag_of = 0;
template <class T> constexpr Tag tag() { return &tag_of<T>; }
struct TextureOrSurface {};  // objects without a type of their own: kernels name them by numbers
struct Condition {};

struct Thing {
    std::uint64_t id;
    std::uint64_t whole = 0;  // what it is a part of
    Op made_by{};
    std::uint64_t note = 0;  // what else its maker knows
};

enum class Sort : std::uint8_t { allocated, queued, reserved, mapped, accessible, in_graph, opened, count };
struct Memory {
    std::uint64_t address, bytes, whole = 0;
};

struct Token {  // what a process shows others; processes of this program tell each other
    Op made_by;
    char bytes[64];
};
struct Tokens {
    static constexpr std::size_t room = 64;
    std::uint64_t count;  // so far; written by many
    Token all[room];
};

class Known {
  public:
    explicit Known(Tokens& tokens) : tokens_(tokens) {}

    std::vector<Thing>& of(Tag type) { return things_[type]; }
    void add(Tag type, const Thing& thing) {
        auto& all = of(type);
        if (thing.id && std::ranges::find(all, thing.id, &Thing::id) == all.end()) all.push_back(thing);
    }
    void remove(std::uint64_t id) {  // and its parts
        for (auto& [type, all] : things_)
            std::erase_if(all, [&](const Thing& t) { return t.id == id || (id && t.whole == id); });
        for (auto& all : memory_) std::erase_if(all, [&](const Memory& m) { return id && m.whole == id; });
    }
    void clear() {
        things_.clear();
        for (auto& all : memory_) all.clear();
    }
    std::vector<Memory>& memory(Sort sort) { return memory_[static_cast<std::size_t>(sort)]; }
    void free(std::uint64_t address) {
        for (auto& all : memory_) std::erase_if(all, [&](const Memory& m) { return m.address == address; });
    }
    const std::unordered_map<Tag, std::vector<Thing>>& everything() const { return things_; }

    void tell(Op made_by, const void* bytes, std::size_t n) {
        Token& t = tokens_.all[__atomic_fetch_add(&tokens_.count, 1, __ATOMIC_RELAXED) % Tokens::room];
        t.made_by = made_by;
        std::memcpy(t.bytes, bytes, std::min(n, sizeof t.bytes));
    }
    const Tokens& tokens() const { return tokens_; }

  private:
    std::unordered_map<Tag, std::vector<Thing>> things_;
    std::vector<Memory> memory_[static_cast<std::size_t>(Sort::count)];
    Tokens& tokens_;
};

}  // namespace barcuda::hostile
