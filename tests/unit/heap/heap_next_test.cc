// SPDX-License-Identifier: Apache-2.0
// Functions of the C library behind the library's own: found by the constructor, and replaced until it has run.
#include "guest-allocator/heap/next.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/heap/support/unit_region.h"

namespace barcuda::heap {
namespace {

int substitute() { return -7; }

NEXT_FUNCTION(int(), next_pagesize, "getpagesize");
NEXT_FUNCTION_OR(int(), next_pagesize_or, "getpagesize", substitute);
NEXT_FUNCTION(int(), next_missing, "barcuda_has_no_such_function");
NEXT_FUNCTION_OR(int(), next_missing_or, "barcuda_has_no_such_function", substitute);

TEST(HeapNext, IsLookedUpByTheConstructor) {
    EXPECT_NE(nullptr, next_pagesize.to.load());
    EXPECT_EQ(getpagesize(), next_pagesize());
}
TEST(HeapNext, IsLookedUpByACallBeforeTheConstructorHasRun) {
    Next<int()> next{{"getpagesize"}};
    EXPECT_EQ(getpagesize(), next());
    EXPECT_NE(nullptr, next.to.load());
}
TEST(HeapNext, IsTheSubstituteUntilTheConstructorHasRun) {
    Next<int(), substitute> next{{"getpagesize"}};
    EXPECT_EQ(substitute(), next());
    EXPECT_EQ(nullptr, next.to.load()) << "a call has looked it up";
    look_up(next);
    EXPECT_EQ(getpagesize(), next());
    EXPECT_EQ(BARCUDA_SANITIZED ? substitute() : getpagesize(), next_pagesize_or());
}
TEST(HeapNext, ThatDoesNotExistIsNullOrTheSubstitute) {
    EXPECT_FALSE(next_missing);
    EXPECT_EQ(substitute(), next_missing_or());
}

}  // namespace
}  // namespace barcuda::heap
