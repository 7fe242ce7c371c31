// SPDX-License-Identifier: Apache-2.0
// memory_layer.h: cuMemAlloc by blocks over the software GPU, beside the software GPU's own, for tests.
#pragma once
#include "host-bridge/worker/memory/layer.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <vector>

#include "host-bridge/between/device_choice.h"
#include "host-bridge/worker/memory/blocks.h"
#include "host-bridge/worker/memory/driver_pieces.h"
#include "host-bridge/worker/memory/residence.h"
#include "host-bridge/worker/memory/store.h"
#include "host-bridge/worker/quota/granter.h"

namespace barcuda::test {

constexpr std::size_t mib = 1 << 20;

struct MemoryLayer : testing::Test, Granter, GpuWork {
    static Driver& below() {
        static Driver driver;
        return driver;
    }
    static void SetUpTestSuite() {
        setenv("BARCUDA_SOFT_MEMORY", "256M", 1);
        setenv("BARCUDA_SOFT_DEVICES", "2", 1);
        ASSERT_EQ("", below().open(software_library()).text());
        ASSERT_EQ(CUDA_SUCCESS, below().cuInit(0));
        for (int device : {0, 1}) ASSERT_EQ(CUDA_SUCCESS, below().cuDevicePrimaryCtxRetain(&primaries[device], device));
    }
    void SetUp() override {
        ASSERT_EQ(CUDA_SUCCESS, below().cuCtxSetCurrent(primaries[0]));
        room_before = room();
        table = below();
        allocate_in_blocks(table, *this, *this);
    }
    void TearDown() override {  // a reset ends everything, as at a client's end
        for (int device : {0, 1}) {
            ASSERT_EQ(CUDA_SUCCESS, table.cuDevicePrimaryCtxReset_v2(device));
            ASSERT_EQ(CUDA_SUCCESS, below().cuDevicePrimaryCtxRetain(&primaries[device], device));
        }
        EXPECT_EQ(0u, bytes_of_blocks());
        ASSERT_EQ(CUDA_SUCCESS, below().cuCtxSetCurrent(primaries[0]));
        EXPECT_EQ(room_before, room());
    }

    static std::size_t room() {
        std::size_t free = 0, total = 0;
        EXPECT_EQ(CUDA_SUCCESS, below().cuMemGetInfo_v2(&free, &total));
        return free;
    }
    CUdeviceptr allocate(std::size_t bytes) {
        CUdeviceptr address = 0;
        EXPECT_EQ(CUDA_SUCCESS, table.cuMemAlloc_v2(&address, bytes));
        EXPECT_GE(address, Spans::begin) << "the driver's";
        return address;
    }
    // What both tables answer.
    void expect_the_same(const char* what, const std::function<CUresult(Driver&)>& call) {
        const CUresult with_blocks = call(table);
        EXPECT_EQ(call(below()), with_blocks) << what;
    }
    template <class T> T attribute(const Driver& driver, CUpointer_attribute which, CUdeviceptr address) {
        T value{};
        EXPECT_EQ(CUDA_SUCCESS, driver.cuPointerGetAttribute(&value, which, address)) << which;
        return value;
    }

    // ---- a bridge: each thing that is shared has a token
    std::vector<std::pair<Shared::Handle, File>> shared;
    std::size_t withdrawn = 0;
    CUresult grant(std::uint64_t, std::uint64_t&, std::uint64_t&) override { return CUDA_ERROR_OUT_OF_MEMORY; }
    void release(std::uint64_t, std::uint64_t) override {}
    CUresult share(Shared::Kind kind, Shared::Handle& handle, const File& file) override {
        EXPECT_EQ(Shared::Kind::allocation, kind);
        shared.emplace_back(handle, File(dup(file.fd())));
        handle = {};
        handle[20] = static_cast<char>(shared.size());
        return CUDA_SUCCESS;
    }
    CUresult find_shared(Shared::Kind, Shared::Handle& handle, File& file) override {
        const auto which = static_cast<std::size_t>(handle[20]);
        if (which == 0 || which > shared.size()) return CUDA_ERROR_INVALID_HANDLE;
        handle = shared[which - 1].first;
        file = File(dup(shared[which - 1].second.fd()));
        return CUDA_SUCCESS;
    }
    void withdraw(const Shared::Handle&) override { ++withdrawn; }

    // ---- the GPU's work
    bool is_idle = false, captures = false;
    bool idle() override { return is_idle; }
    bool may_capture() override { return captures; }

    static inline CUcontext primaries[2];
    Driver table;
    std::size_t room_before = 0;
};

}  // namespace barcuda::test
