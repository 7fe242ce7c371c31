// SPDX-License-Identifier: Apache-2.0
// Views of regions in a process of Windows: guest-windows/base/os/view.h.
#include "base/os/view.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <io.h>

#include <cerrno>
#include <cstdio>
#include <memory>
#include <string>

#include "base/os/map.h"

namespace barcuda::os {
namespace {

class ViewTest : public ::testing::Test {
  protected:
    ViewTest() : path_(std::string(std::getenv("TEMP")) + "\\barcuda-view-test") {
        const int made = _open(path_.c_str(), O_RDWR | O_BINARY | O_CREAT | O_TRUNC, 0600);
        EXPECT_EQ(_chsize(made, bytes), 0);
        _close(made);
    }
    ~ViewTest() override { std::remove(path_.c_str()); }
    int open() const { return _open(path_.c_str(), O_RDWR | O_BINARY); }
    void close(int file) {
        forget_view(file);
        _close(file);
    }

    static constexpr long bytes = 1 << 20;
    const std::string path_;
};

TEST_F(ViewTest, IsMadeOnce) {
    const int first = open(), second = open();
    View *one = nullptr, *other = nullptr;
    EXPECT_EQ(find_view(path_.c_str()), nullptr);
    ASSERT_EQ(map_view(first, path_.c_str(), one), 0);
    ASSERT_EQ(map_view(second, path_.c_str(), other), 0);
    EXPECT_EQ(one, other);
    EXPECT_EQ(one->bytes, std::uint64_t{bytes});
    EXPECT_EQ(find_view(path_.c_str()), one);
    EXPECT_EQ(view_of(second), one);
    EXPECT_EQ(view_with(one->base + bytes - 1), one);
    EXPECT_EQ(view_with(one->base + bytes), nullptr);
    close(second);
    drop_view(first);
    _close(first);
}

TEST_F(ViewTest, StaysWhenItsFileIsClosedAndGoesWhenItIsDropped) {
    int file = open();
    View* view = nullptr;
    ASSERT_EQ(map_view(file, path_.c_str(), view), 0);
    char* const base = view->base;
    close(file);
    EXPECT_EQ(view_of(file), nullptr);
    EXPECT_TRUE(is_mapped(base, bytes));
    EXPECT_EQ(view_with(base), view);
    file = open();
    ASSERT_EQ(map_view(file, path_.c_str(), view), 0);
    EXPECT_EQ(view->base, base);
    drop_view(file);
    _close(file);
    EXPECT_FALSE(is_mapped(base, bytes));
    EXPECT_EQ(find_view(path_.c_str()), nullptr);
    EXPECT_EQ(view_with(base), nullptr);
}

TEST(ViewLockTest, IsHeldByOneUntilItIsGivenBack) {
    const auto view = std::make_unique<View>();
    EXPECT_EQ(view->lock(0), 0);
    EXPECT_EQ(view->lock(4096), 0);
    EXPECT_EQ(view->lock(4096), EAGAIN);
    view->unlock(4096);
    EXPECT_EQ(view->lock(0), EAGAIN);
    EXPECT_EQ(view->lock(4096), 0);
}

TEST(ViewLockTest, ThereAreNoMoreThanItHasRoomFor) {
    const auto view = std::make_unique<View>();
    for (std::size_t i = 0; i < View::most_held; ++i) EXPECT_EQ(view->lock(i), 0);
    EXPECT_EQ(view->lock(View::most_held), EAGAIN);
    view->unlock(3);
    EXPECT_EQ(view->lock(View::most_held), 0);
}

}  // namespace
}  // namespace barcuda::os
