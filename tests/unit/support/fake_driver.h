// SPDX-License-Identifier: Apache-2.0
// fake_driver.h: a driver that does nothing but watch. Every function of the command table's is there, made from its
// prototype: a handle that it is given must be one that it has given, an object that it is asked for is new. So a
// session above it that lets a lie through is found out at once. fake_driver.cc has its hundreds of functions.
#pragma once
#include <unistd.h>

#include <cstdint>
#include <set>
#include <string>

#include "host-bridge/worker/session/library_functions.h"
#include "host-bridge/worker/session/session.h"

namespace barcuda::fake {

struct World {
    std::set<std::uint64_t> given;  // handles
    std::uint64_t next = 0x5555'0000'0000;
    std::uint64_t calls = 0;
    std::string last;                       // the last function that was called
    CUdeviceptr memory = 0x2a00'0000'0000;  // one allocation of a mebibyte
    static constexpr std::size_t memory_bytes = 1 << 20;

    static World& current() {
        static World world;
        return world;
    }
    std::uint64_t give() {
        next += 64;
        given.insert(next);
        return next;
    }
};

Driver driver();
void fill(Libraries& libraries);

// Where the region lies: under TSan somewhere else, it keeps the usual place for itself.
#ifdef __SANITIZE_THREAD__
constexpr std::uint64_t ground_base = std::uint64_t{64} << 30;
#else
constexpr std::uint64_t ground_base = BARCUDA_DEFAULT_BASE;
#endif

// A session over it, with a region of 64 MiB, of which the client has the first half.
struct Ground : Granter {
    static constexpr std::uint64_t bytes = 64 << 20, granted = 32 << 20;
    int file;
    Extents extents;
    barcuda_status status{};
    const Driver table;
    Session session;

    // `region`: a file of those bytes; -1: one of its own.
    explicit Ground(std::uint64_t base = ground_base, const Driver& driver = fake::driver(), int region = -1);
    ~Ground() override;
    CUresult grant(std::uint64_t, std::uint64_t&, std::uint64_t&) override { return CUDA_ERROR_OUT_OF_MEMORY; }
    void release(std::uint64_t, std::uint64_t) override {}
    CUresult share(Shared::Kind kind, Shared::Handle& handle, const File& file) override {
        return shared.offer(0, kind, handle, File(dup(file.fd()))) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    }
    CUresult find_shared(Shared::Kind kind, Shared::Handle& handle, File& file) override {
        const Shared::Thing* thing = shared.find(kind, handle);
        if (!thing) return CUDA_ERROR_INVALID_HANDLE;
        handle = thing->handle;
        file = File(dup(thing->file.fd()));
        return CUDA_SUCCESS;
    }
    void withdraw(const Shared::Handle& token) override { shared.withdraw(0, token); }
    Shared shared;
};

}  // namespace barcuda::fake
