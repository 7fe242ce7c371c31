// SPDX-License-Identifier: Apache-2.0
// births_carried.h: a client of the software GPU makes its objects in one process, and uses them in another one, where
// they were made again from what was recorded.
#pragma once
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <utility>

#include "host-bridge/worker/memory_bytes.h"
#include "tests/unit/support/carried.h"
#include "tests/unit/support/kernels_ptx.h"

namespace barcuda::test::births {

using enum Op;

// A client whose worker is this process.
struct Client : CarriedClient {
    void begin() {
        CUcontext primary = nullptr;
        ASSERT_TRUE((call<cuDevicePrimaryCtxRetain>(&primary, 0).ok()));
        context = static_cast<std::uint32_t>(id(primary));
    }
    CUdeviceptr memory(std::size_t bytes) {
        CUdeviceptr at = 0;
        EXPECT_EQ(CUDA_SUCCESS, (call<cuMemAlloc_v2>(&at, bytes).result));
        return at;
    }
    void free(CUdeviceptr at) { EXPECT_EQ(CUDA_SUCCESS, (call<cuMemFree_v2>(at).result)); }
    void fill(CUdeviceptr at, unsigned char with, std::size_t bytes) {
        EXPECT_EQ(CUDA_SUCCESS, (call<cuMemsetD8Async>(at, with, bytes, CUstream{}).result));
    }
    template <class T> T read(CUdeviceptr at) {
        wait();
        T value{};
        EXPECT_EQ(CUDA_SUCCESS, (call<copy_out>(static_cast<void*>(&value), at, sizeof value, CUstream{}).result));
        return value;
    }
    void put_code() {
        std::memcpy(ground.extents.locate(guest.offset, sizeof kernels_ptx), kernels_ptx, sizeof kernels_ptx);
    }
    CUmodule module() {
        CUmodule m = nullptr;
        put_code();
        EXPECT_EQ(
            CUDA_SUCCESS,
            (call<load_module>(&m, static_cast<const void*>(kernels_ptx), sizeof kernels_ptx, ext::no_logs).result));
        std::memset(ground.extents.locate(guest.offset, sizeof kernels_ptx), 0,
                    sizeof kernels_ptx);  // the program uses the place again
        return m;
    }
    CUfunction function(CUmodule m, const char* name) {
        CUfunction f = nullptr;
        EXPECT_EQ(CUDA_SUCCESS, (call<cuModuleGetFunction>(&f, m, name).result));
        return f;
    }
    struct Parameters {
        CUdeviceptr to;
        unsigned value, padding;
    };
    static constexpr std::size_t parameter_bytes = 12;
    static ext::Shape shape(unsigned threads) {
        return {.grid = {1, 1, 1}, .block = {threads, 1, 1}, .shared_bytes = 0};
    }
    CUresult run(CUfunction f, CUdeviceptr to, unsigned value, CUstream stream = nullptr) {
        const Parameters p{to, value, 0};
        return call<launch>(f, shape(4), stream, static_cast<const void*>(&p), parameter_bytes).result;
    }
    CUgraphNode kernel_node(CUgraph g, CUfunction f, CUdeviceptr to, unsigned value) {
        const Parameters p{to, value, 0};
        CUgraphNode n = nullptr;
        EXPECT_EQ(CUDA_SUCCESS, (call<add_kernel_node>(&n, g, static_cast<const CUgraphNode*>(nullptr), std::size_t{0},
                                                       f, shape(4), static_cast<const void*>(&p), parameter_bytes)
                                     .result));
        return n;
    }
    CUgraphExec exec(CUgraph g) {
        CUgraphExec e = nullptr;
        EXPECT_EQ(CUDA_SUCCESS, (call<cuGraphInstantiateWithFlags>(&e, g, 0ull).result));
        return e;
    }
    void launch_graph(CUgraphExec e) { EXPECT_EQ(CUDA_SUCCESS, (call<cuGraphLaunch>(e, CUstream{}).result)); }
};

// What the two processes have in common: ids and numbers that the program remembers.
struct Memory {
    std::uint64_t next_id, remembered[64];
};

class BirthsCarried : public testing::Test {
  protected:
    Memory* const memory = static_cast<Memory*>(
        mmap(nullptr, sizeof(Memory), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    const CarriedParts parts{};
    ~BirthsCarried() override { munmap(memory, sizeof(Memory)); }

    std::uint64_t& kept(std::size_t which) { return memory->remembered[which]; }
    template <class T> void keep(std::size_t which, T what) { kept(which) = (std::uint64_t)what; }
    template <class T> T get(std::size_t which) { return (T)kept(which); }

    // The client's first worker: all that is carried is written down.
    void first(const std::function<void(Client&)>& make) {
        in_a_process([&] {
            Client client;
            client.begin();
            make(client);
            client.wait();
            ASSERT_EQ("", parts.write(client).what);
            memory->next_id = client.guest.next;
        });
    }
    Failure wake(Client& client) {
        client.guest.next = memory->next_id;
        return parts.wake(client);
    }
    // And the second one, which goes on.
    void second(const std::function<void(Client&)>& use) {
        in_a_process([&] {
            Client client;
            ASSERT_EQ("", wake(client).text());
            CUcontext primary = nullptr;
            ASSERT_TRUE((client.call<cuDevicePrimaryCtxRetain>(&primary, 0).ok()));
            client.context = static_cast<std::uint32_t>(Client::id(primary));
            use(client);
            client.wait();
        });
    }
};

}  // namespace barcuda::test::births
