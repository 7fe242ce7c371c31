// SPDX-License-Identifier: Apache-2.0
// Mode auto, from a program's start to its first CUDA call. The tests build on each other: a process goes this way
// once.
#include <gtest/gtest.h>
#include <stdlib.h>

#include "tests/heap/support/unit_region.h"

using namespace barcuda::heap;
using namespace barcuda::heap::test;

namespace {

bool ours(std::size_t bytes) {
    void* volatile p = malloc(bytes);
    const bool answer = in_region(p, 1);
    free(p);
    return answer;
}

TEST(Auto, GoesThroughItsStages) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "malloc is the sanitizer's";
#endif
    EXPECT_FALSE(ours(1 * MiB)) << "a program without CUDA keeps its heap";
    EXPECT_EQ(the_source, nullptr);
    volatile std::size_t everything = SIZE_MAX;
    EXPECT_EQ(malloc(everything), nullptr);
    EXPECT_EQ(the_source, nullptr) << "nor does one that asks for what nobody has connect";

    expect();
    EXPECT_EQ(the_source, nullptr) << "a fat binary alone costs no connection";
    EXPECT_FALSE(ours(1000));
    EXPECT_EQ(the_source, nullptr) << "nor does a small block";
    EXPECT_TRUE(ours(1 * MiB)) << "buffers filled before the first CUDA call are zero-copy";
    EXPECT_NE(the_source, nullptr);

    EXPECT_TRUE(activate());
    EXPECT_TRUE(ours(1 * MiB));
    EXPECT_FALSE(ours(1000));
}

}  // namespace
