// SPDX-License-Identifier: Apache-2.0
// extents.h: where the heap's memory comes from. The heap sees the region as a source of extents and knows nothing of
// files, channels or hosts; the channel (or a test) implements ExtentSource.
//
// The heap calls the source from inside malloc, with any locks that the program holds: an implementation may call
// malloc (it gets ordinary memory) but must not take a lock under which any thread calls malloc, and must not dlopen,
// print through stdio or throw. Calls to one source never overlap, but they come from any thread.
#pragma once
#include <cstddef>
#include <cstdint>

#include "shm-device/layout.h"

namespace barcuda::heap {

constexpr std::size_t granule = BARCUDA_GRANULE;  // extents begin at and are multiples of it

struct Extent {
    std::byte* address = nullptr;
    std::size_t bytes = 0;
};

// visit(at, n) for each of the parts [at, at + n) of `bytes` at `run` that are in one granule, in order, until it
// returns false. Returns how far it came.
template <class F> std::size_t each_granule(const std::byte* run, std::size_t bytes, F visit) {
    std::size_t at = 0;
    while (at < bytes) {
        const std::size_t left = granule - reinterpret_cast<std::uintptr_t>(run + at) % granule;
        const std::size_t part = left < bytes - at ? left : bytes - at;
        if (!visit(at, part)) break;
        at += part;
    }
    return at;
}

class ExtentSource {
  public:
    // The addresses [address, address + bytes) within which every extent lies: the whole region. Constant, aligned to
    // a granule at both ends, reserved for the region in this process from connect() on.
    virtual Extent window() const noexcept = 0;

    // An extent of at least `bytes` (a multiple of granule): filled with zeros, mapped shared at its identity address,
    // readable and writable, known to the device, if there is one, before it is used. False: the region has none. Waits
    // for no GPU: a GPU may wait for the thread that asks.
    virtual bool grant(std::size_t bytes, Extent& out) noexcept = 0;

    // After a grant that was refused: for want of room, and not for a reason that the source has told already.
    virtual bool is_full() const noexcept { return true; }

    // Releases an extent exactly as it was granted. Nothing of the heap's lies in it any more.
    virtual void release(Extent extent) noexcept = 0;

    // A second mapping of a part of one granule (whole pages that no block uses yet), at an address of its own, that
    // may be moved like any other; null: not available. (For several granules it would not always be one mapping.)
    virtual std::byte* alias(Extent) noexcept { return nullptr; }

    // Whole pages of one extent, over which the program has mapped something else, become the region's again, with what
    // they held. False: they cannot.
    virtual bool renew(Extent) noexcept { return false; }

    // True where a forked child gets a snapshot of the extents by itself (the kernel module's copy-on-write); false
    // where parent and child would share them, so that the heap copies in the child (fork.cc).
    virtual bool forks_by_itself() const noexcept = 0;

    // A descriptor of the file that the extents are mappings of (where in it, the heap asks the kernel): a forked child
    // copies through it, and skips holes. -1: it copies from the mapping. Asked for in the child; the heap does not
    // close it.
    virtual int file() const noexcept { return -1; }

    // In a forked child, once: the connection is the parent's. Called where fork() and _Fork() are, after the heap has
    // its snapshot and before they return. Only handlers that others have given pthread_atfork() before this library
    // began run earlier. (vfork, posix_spawn, system and popen make no such child.)
    virtual void forked() noexcept {}

  protected:
    ~ExtentSource() = default;
};

// Opens the region and a channel, once, at the heap's first need; null if there is no region or it refused. The program
// or library that links the heap defines it. The same rules as for the source's functions hold.
ExtentSource* connect() noexcept;

// From here on forked children are told by source.forked(). The heap calls this for connect()'s result; a source that
// may exist without it (it is still connecting, or connected before the heap has asked) calls it itself.
void tell_of_forks(ExtentSource& source) noexcept;
void tell_of_no_forks() noexcept;  // there is no source after all

}  // namespace barcuda::heap
