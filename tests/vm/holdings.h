// SPDX-License-Identifier: Apache-2.0
// holdings.h: what a process of module_fuzz.cc has in its hands: descriptors, mappings, pipes; and how it takes some of
// them at random.
//
// Addresses lie in two windows that hold nothing else: the region's own, where an address says which extent, and one
// elsewhere. So nothing that is unmapped or mapped over is the program's own, whatever two threads make of each other's
// notes.
#pragma once
#include <fcntl.h>
#include <setjmp.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdarg>
#include <cstdio>

#include "tests/vm/door.h"

namespace barcuda::vm {

// What all processes see.
struct Findings {
    std::atomic<std::uint64_t> calls[64], successes[64], lives;
    std::atomic<unsigned> wrong;
    char text[16][160];

    __attribute__((format(printf, 2, 3))) void say(const char* format, ...) {
        const unsigned n = wrong.fetch_add(1);
        if (n >= std::size(text)) return;
        va_list values;
        va_start(values, format);
        std::vsnprintf(text[n], sizeof text[n], format, values);
        va_end(values);
    }
};

class Random {
  public:
    explicit Random(std::uint64_t seed) : state_((seed + 1) * 0x9e3779b97f4a7c15) {}
    std::uint64_t next() {
        state_ ^= state_ << 13;
        state_ ^= state_ >> 7;
        state_ ^= state_ << 17;
        return state_ * 0x2545f4914f6cdd1d >> 8;
    }
    std::uint64_t below(std::uint64_t n) { return next() % n; }
    bool chance(unsigned percent) { return below(100) < percent; }
    template <class T> T of(std::initializer_list<T> list) { return list.begin()[below(list.size())]; }

  private:
    std::uint64_t state_;
};

struct Piece {
    char* at;
    std::size_t bytes;
};

struct Means {
    Findings& found;
    unsigned family;  // whose words are whose
    int letters[2];   // a socket whose datagrams carry descriptors
    int disk;         // open for direct I/O, or -1
    const char* (*node)();
};

// Threads share it without a lock: what they make of it together is one more lie.
class Holdings {
  public:
    // A load or store that may be a fault: then false.
    template <class Access> static bool dare(Access access) {
        sigjmp_buf here, *const before = way_back;
        if (sigsetjmp(here, 1)) {
            way_back = before;
            return false;
        }
        way_back = &here;
        access();
        way_back = before;
        return true;
    }
    static inline thread_local sigjmp_buf* way_back = nullptr;

  protected:
    explicit Holdings(const Means& means) : means_(means) {
        fds_.fill(-1);
        for (auto& p : pipes_)
            if (pipe2(p, O_NONBLOCK | O_CLOEXEC)) p[0] = p[1] = -1;
    }

    // ---- what there is to take

    Piece window(const char* at) const {
        constexpr std::size_t beyond = BARCUDA_GRANULE;  // on both sides: what is outside the region
        if (at >= elsewhere_ && at < elsewhere_ + elsewhere_bytes) return {elsewhere_, elsewhere_bytes};
        return {reinterpret_cast<char*>(header_->base) - beyond, header_->size + 2 * beyond};
    }
    Piece inside(Piece p) const {
        const Piece w = window(p.at);
        if (p.at < w.at || p.at >= w.at + w.bytes) return {w.at, BARCUDA_PAGE};
        return {p.at, std::min<std::size_t>(p.bytes, w.at + w.bytes - p.at)};
    }
    std::size_t length(Random& r) const {
        if (r.chance(3)) return r.next() % (header_->size * 2);
        return r.of({BARCUDA_PAGE, BARCUDA_PAGE, 7 * BARCUDA_PAGE, 2ull << 20, BARCUDA_CHANNEL_SIZE, BARCUDA_GRANULE,
                     2 * BARCUDA_GRANULE, 3 * BARCUDA_GRANULE, 0ull, 100ull});
    }
    char* address(Random& r) const {
        if (r.chance(30)) return elsewhere_ + r.below(elsewhere_bytes) / BARCUDA_PAGE * BARCUDA_PAGE;
        const unsigned granules =
            r.chance(80) ? stub_granules * 8 : header_->granule_count + 1;  // of the first slots, mostly
        char* at = header_.address(static_cast<unsigned>(r.below(granules)));
        if (r.chance(40)) at += r.below(BARCUDA_GRANULE) / BARCUDA_PAGE * BARCUDA_PAGE;
        return r.chance(3) ? at + r.below(BARCUDA_PAGE) : at;
    }
    // Part of what was once mapped.
    Piece piece(Random& r) const {
        Piece p = pieces_[r.below(pieces_.size())];
        if (!p.at || r.chance(5)) return inside({address(r), length(r)});
        if (r.chance(70)) {
            const std::size_t pages = std::max<std::size_t>(1, p.bytes / BARCUDA_PAGE);
            p.at += r.below(r.chance(50) ? std::min<std::size_t>(pages, 20) : pages) * BARCUDA_PAGE;
            p.bytes = (1 + r.below(r.chance(80) ? 9 : pages)) * BARCUDA_PAGE;
        }
        return inside(p);
    }
    // A few words of it.
    Piece words(Random& r) const {
        const Piece p = piece(r);
        const auto at = (reinterpret_cast<std::uintptr_t>(p.at) + r.below(512) * 8) & ~7ull;
        return inside({reinterpret_cast<char*>(at), r.of({8u, 64u, 4096u, 5 * 4096u})});
    }
    bool note(Random& r, void* at, std::size_t bytes) {
        if (at == MAP_FAILED) return false;
        const Piece p{static_cast<char*>(at), bytes};
        if (inside(p).at == p.at) pieces_[r.below(pieces_.size())] = p;
        else munmap(at, bytes);  // where the kernel chose to put it, beside others'
        return true;
    }
    int fd(Random& r) const { return fds_[r.below(fds_.size())]; }
    int pipe_end(Random& r, int end) const { return pipes_[r.below(pipes_.size())][end]; }
    bool keep_fd(Random& r, int fd) {
        if (fd < 0) return false;
        int& place = fds_[r.below(fds_.size())];
        if (place >= 0) close(place);
        place = fd;
        return true;
    }

    // ---- whose words are whose

    // Both halves of a word say which family wrote it. Extents hold nothing else.
    std::uint32_t tag() const { return 0xfa000000u | means_.family << 16; }
    std::uint64_t word(Random& r) const {
        return static_cast<std::uint64_t>(tag() | (r.next() & 0xffff)) << 32 | (tag() | (r.next() & 0xffff));
    }
    void check(const char* how, const void* from, std::size_t bytes) const {
        const auto* halves = static_cast<const std::uint32_t*>(from);
        for (std::size_t i = 0; i < bytes / 4; ++i)
            if (halves[i] != 0 && (halves[i] & 0xffff0000u) != tag())
                return means_.found.say("family %u read %#x, %s", means_.family, halves[i], how);
    }
    bool is_extent(Piece p) const {
        return p.at >= header_.address(0) && p.at + p.bytes <= header_.address(header_->granule_count);
    }

    static constexpr std::size_t elsewhere_bytes = 256u << 20;
    static constexpr std::size_t most_anonymous = 1u << 20;
    Means means_;
    Header header_;  // of the device that there is now
    std::array<int, 6> fds_{};
    std::array<Piece, 24> pieces_{};
    std::array<int[2], 2> pipes_{};
    char* const elsewhere_ = reinterpret_cast<char*>(header_->base) - (1ull << 40);
};

}  // namespace barcuda::vm
