// SPDX-License-Identifier: Apache-2.0
// A thread_local as guest-windows/base/os/emulated_tls.cc finds it.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <set>
#include <thread>
#include <vector>

namespace barcuda {
namespace {

thread_local int begins_as_seven = 7;
thread_local std::array<std::uint64_t, 100> zeros;
struct alignas(64) Line {
    char byte;
};
thread_local Line line;
template <int number> thread_local int numbered = number;

// So that no compiler remembers where it is.
template <class T> T& here(T& variable) {
    asm volatile("" ::"r"(&variable) : "memory");
    return variable;
}

template <int... number> bool begin_as_written(std::integer_sequence<int, number...>) {
    return ((here(numbered<number>) == number) && ...);
}

TEST(ThreadLocal, BeginsInEachThreadAsItIsWritten) {
    here(begins_as_seven) = 8;
    here(zeros)[99] = 1;
    for (int i = 0; i < 20; ++i)
        std::thread([] {
            EXPECT_EQ(here(begins_as_seven), 7);
            for (const std::uint64_t word : here(zeros)) EXPECT_EQ(word, 0u);
            here(begins_as_seven) = 9;
            here(zeros).fill(1);
        }).join();
    EXPECT_EQ(here(begins_as_seven), 8);
    EXPECT_EQ(here(zeros)[99], 1u);
}

TEST(ThreadLocal, LiesElsewhereInEachThread) {
    constexpr int count = 8;
    std::array<int*, count> places{};
    std::vector<std::thread> threads;
    std::atomic<int> there{0};
    for (int i = 0; i < count; ++i)
        threads.emplace_back([&places, &there, i] {
            places[static_cast<std::size_t>(i)] = &here(begins_as_seven);
            for (++there; there < count;) std::this_thread::yield();
        });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(std::set<int*>(places.begin(), places.end()).size(), static_cast<std::size_t>(count));
}

TEST(ThreadLocal, IsAligned) {
    std::thread([] { EXPECT_EQ(reinterpret_cast<std::uintptr_t>(&here(line)) % alignof(Line), 0u); }).join();
}

TEST(ThreadLocal, ThereMayBeMany) {
    std::thread([] { EXPECT_TRUE(begin_as_written(std::make_integer_sequence<int, 100>())); }).join();
    EXPECT_TRUE(begin_as_written(std::make_integer_sequence<int, 100>()));
}

TEST(ThreadLocal, IsReleasedWithItsThread) {
    constexpr std::size_t count = 20;
    std::set<std::uint64_t*> places;
    for (std::size_t i = 0; i < count; ++i) std::thread([&places] { places.insert(here(zeros).data()); }).join();
    EXPECT_LT(places.size(), count);
}

// Its destructors run while there are still variables, whose values they see.
struct LeavesTrace {
    int* to = nullptr;
    ~LeavesTrace() {
        if (to) *to = here(begins_as_seven);
    }
};
thread_local LeavesTrace leaves_trace;

TEST(ThreadLocal, IsThereWhileItsThreadEnds) {
    int left = 0;
    std::thread([&left] {
        here(begins_as_seven) = 10;
        leaves_trace.to = &left;
    }).join();
    EXPECT_EQ(left, 10);
}

}  // namespace
}  // namespace barcuda
