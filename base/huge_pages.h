// SPDX-License-Identifier: Apache-2.0
// huge_pages.h: a string for contents that may be large and are released soon, such as a copy of a code image. 100 MB
// of fresh memory are 25,600 page faults, which take four times as long as the copy itself; in huge pages there are 50.
// Small contents, and kernels without huge pages, use pages as usual.
#pragma once
#include <sys/mman.h>

#include <cstddef>
#include <cstdlib>
#include <new>
#include <string>

namespace barcuda {

template <class T> struct HugePages {
    using value_type = T;

    HugePages() = default;
    template <class U> HugePages(const HugePages<U>&) noexcept {}
    template <class U> bool operator==(const HugePages<U>&) const noexcept { return true; }

    T* allocate(std::size_t count) {
        const std::size_t bytes = count * sizeof(T);
        if (!large(count)) return static_cast<T*>(::operator new(bytes));
        const std::size_t whole = (bytes + page - 1) / page * page;
        void* const at = std::aligned_alloc(page, whole);
        if (!at) throw std::bad_alloc();
        madvise(at, whole, MADV_HUGEPAGE);  // a hint
        return static_cast<T*>(at);
    }
    void deallocate(T* at, std::size_t count) noexcept { large(count) ? std::free(at) : ::operator delete(at); }

  private:
    static constexpr std::size_t page = 2 << 20;
    static bool large(std::size_t count) { return count * sizeof(T) >= 2 * page; }  // less would mostly be rounding
};

using LargeString = std::basic_string<char, std::char_traits<char>, HugePages<char>>;

}  // namespace barcuda
