// SPDX-License-Identifier: Apache-2.0
// mappings.h: what the program does with the pages of a block beyond reading and writing: it protects them, maps
// other memory over them, gives advice about them. Blocks of the region are parts of a shared mapping; a program
// expects private memory. So the system calls for it are ours as well (mappings.cc), and each page of a block carries
// marks.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace barcuda::heap {

// The marks of a page.
enum Mark : std::uint8_t {
    replaced = 1,       // the program has mapped other memory here, or nothing
    guarded = 2,        // the program has taken away the right to read or write
    wiped_on_fork = 4,  // a child finds zeros
    not_forked = 8,     // a child finds nothing
};
constexpr unsigned any_mark = replaced | guarded | wiped_on_fork | not_forked;

// False until the first page is marked: all that a program pays for that marks nothing.
[[gnu::visibility("hidden")]] extern std::atomic<bool> ever_marked;

// Whether a page of the range, which lies in the region, has one of these marks.
bool find_mark(const void* p, std::size_t bytes, unsigned marks) noexcept;
inline bool is_marked(const void* p, std::size_t bytes, unsigned marks) noexcept {
    return ever_marked.load(std::memory_order_relaxed) && find_mark(p, bytes, marks);
}

// The end of a block: its pages become pages of the region again, without marks. False: the region cannot be mapped
// there, so these pages may be in no other block.
bool unmark(std::byte* p, std::size_t bytes) noexcept;

// visit(begin, bytes, marks) for each run of pages with the same marks, which may be none.
template <class F> void each_marked(std::byte* p, std::size_t bytes, F visit) noexcept;

// For fork.cc, in a child: applies to an extent what the program requested for children, and clears its marks.
void carry_out_marks(std::byte* p, std::size_t bytes) noexcept;

unsigned marks_of(const void* p) noexcept;  // p lies in the region

template <class F> void each_marked(std::byte* p, std::size_t bytes, F visit) noexcept {
    constexpr std::size_t page = 4096;
    std::byte* const end = p + bytes;
    while (p < end) {
        const unsigned marks = marks_of(p);
        std::byte* const begin = p;
        for (p += page; p < end && marks_of(p) == marks;) p += page;
        visit(begin, static_cast<std::size_t>(p - begin), marks);
    }
}

}  // namespace barcuda::heap
