// SPDX-License-Identifier: Apache-2.0
// addresses.h: which addresses of the window ranges can have. The driver reserves them in spans far larger than most
// ranges. A span stays reserved: a driver may refuse a reservation that overlaps an earlier one, and making a range
// takes one call less. (The caller the driver: mechanism/backing.cc. The caller has a lock.)
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>

namespace barcuda::guest::managed {

class Addresses {
  public:
    struct Span {
        std::uintptr_t begin = 0;
        std::size_t size = 0;
        bool operator==(const Span&) const = default;
    };

    // `unit`: ranges and spans begin and end at its multiples. `usual`: the size of a span.
    Addresses(std::size_t unit, std::size_t usual) : unit_(unit), usual_(usual) {}

    // The driver may reserve this.
    void add_room(std::uintptr_t begin, std::uintptr_t end) { unreserved_[begin] = end; }

    // The address of `bytes` reserved bytes; 0: none are free.
    std::uintptr_t take(std::size_t bytes) { return take_from(free_, bytes); }
    void give(std::uintptr_t begin, std::size_t bytes) {
        if (span_of(begin) != spans_.end()) put(free_, begin, begin + bytes);
    }

    // What to have reserved next for a range of `bytes`; of size 0: there is no room. It is not proposed again,
    // unless the driver has refused it.
    Span propose(std::size_t bytes) {
        const std::size_t usual = std::max(bytes, usual_);
        if (const std::uintptr_t begin = take_from(unreserved_, usual + unit_)) return {begin, usual};
        const std::uintptr_t begin = take_from(unreserved_, bytes + unit_);  // the unit behind keeps spans apart
        return begin ? Span{begin, bytes} : Span{};
    }
    void reserved(const Span& span) { free_[span.begin] = spans_[span.begin] = span.begin + span.size; }
    // The next ones are as long as one range. False: this one was already.
    bool refused(const Span& span) {
        put(unreserved_, span.begin, span.begin + span.size + unit_);
        return std::exchange(usual_, 0) != 0;
    }

    // The span of this address is not reserved any more (the device was reset): nothing is taken from it again.
    void retire(std::uintptr_t address) {
        const auto span = span_of(address);
        if (span == spans_.end()) return;
        std::erase_if(free_, [&](const auto& f) { return f.first >= span->first && f.first < span->second; });
        spans_.erase(span);
    }

  private:
    using Map = std::map<std::uintptr_t, std::uintptr_t>;  // begin -> end

    Map::iterator span_of(std::uintptr_t address) {
        auto span = spans_.upper_bound(address);
        return span == spans_.begin() || (--span)->second <= address ? spans_.end() : span;
    }
    // Neighbours merge.
    static void put(Map& into, std::uintptr_t begin, std::uintptr_t end) {
        if (const auto next = into.find(end); next != into.end()) {
            end = next->second;
            into.erase(next);
        }
        if (auto before = into.lower_bound(begin); before != into.begin() && (--before)->second == begin)
            before->second = end;
        else into[begin] = end;
    }
    // The first that is long enough.
    static std::uintptr_t take_from(Map& from, std::size_t bytes) {
        for (auto at = from.begin(); at != from.end(); ++at) {
            const auto [begin, end] = *at;
            if (end - begin < bytes) continue;
            from.erase(at);
            if (begin + bytes < end) from[begin + bytes] = end;
            return begin;
        }
        return 0;
    }

    const std::size_t unit_;
    std::size_t usual_;  // 0: the driver has refused it
    Map unreserved_, free_, spans_;
};

}  // namespace barcuda::guest::managed
