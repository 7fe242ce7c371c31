// SPDX-License-Identifier: Apache-2.0
// What a client learns about its code: it may print until a thread has searched it, and then only if it does.
#include "host-bridge/worker/session/print_search.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "shm-device/queue/sync.h"
#include "tests/unit/support/container.h"

namespace barcuda {
namespace {

using test::Container;
using test::Packing;

class Searched : public testing::Test {
  protected:
    barcuda_status status{};
    std::shared_ptr<const LargeString> image(const std::string& text) {
        return std::make_shared<const LargeString>(std::string_view(text));
    }
    // A long image whose text is at its end.
    std::shared_ptr<const LargeString> long_image(const char* end) { return image(std::string(16 << 20, 'x') + end); }
    barcuda_u32 said() const { return observe(status.prints); }
    static void await_end_of(const PrintSearch& search) {
        while (search.looks()) std::this_thread::yield();
    }
};

TEST_F(Searched, CodeMayPrintUntilItIsKnownNotTo) {
    PrintSearch search(status);
    EXPECT_EQ(said(), barcuda_u32{BARCUDA_PRINTS_NOT}) << "there is no code";
    for (int i = 0; i < 3; ++i) search.add(long_image("nothing"));
    await_end_of(search);
    EXPECT_FALSE(search.may_print());
    search.add(long_image("vprintf"));
    EXPECT_TRUE(search.may_print()) << "whether it has been found or not";
}

TEST_F(Searched, AThreadThatIsThereAlreadySearches) {
    const auto threads = [] {
        return std::distance(std::filesystem::directory_iterator("/proc/self/task"),
                             std::filesystem::directory_iterator());
    };
    PrintSearch search(status);
    search.take(std::make_unique<IdleThread>());
    const auto before = threads();
    search.add(long_image("vprintf"));
    EXPECT_EQ(threads(), before);
    await_end_of(search);
    EXPECT_TRUE(search.found());
    PrintSearch(status).take(std::make_unique<IdleThread>());  // no code comes: it ends
}

TEST_F(Searched, CodeThatPrintsIsFoundForGood) {
    PrintSearch search(status);
    for (const char* end : {"nothing", "vprintf", "nothing"}) search.add(long_image(end));
    search.add(image("nothing"));
    await_end_of(search);
    EXPECT_EQ(said(), barcuda_u32{BARCUDA_PRINTS_PERHAPS}) << "other code behind it changes nothing";
    search.add(image("nothing"));
    EXPECT_FALSE(search.looks());
    EXPECT_TRUE(search.may_print());
}

TEST_F(Searched, PackedCodeIsUnpacked) {
    for (const Packing packing : {Packing::plain, Packing::lz4, Packing::zstd})
        for (const bool prints : {true, false}) {
            PrintSearch search(status);
            const std::string text = std::string(5000, ' ') + (prints ? "vprintf" : "printf");
            search.add(image(Container().add(fatbin::ptx, 75, text, packing).bytes));
            await_end_of(search);
            EXPECT_EQ(search.may_print(), prints) << static_cast<int>(packing);
        }
}

// Code that exceeds the limit is searched by its caller, while the thread searches earlier code: whichever ends first.
TEST_F(Searched, CodeThatIsTooMuchToWaitIsFoundToo) {
    const auto text = std::string(200 << 20, 'x');
    const auto nothing = image(text), prints = image(text + "vprintf");
    for (const auto& before : {nothing, image("nothing")}) {
        PrintSearch search(status);
        search.add(nothing);
        search.add(before);
        search.add(prints);
        await_end_of(search);
        EXPECT_TRUE(search.may_print());
    }
    PrintSearch search(status);
    for (int i = 0; i < 3; ++i) search.add(nothing);
    await_end_of(search);
    EXPECT_FALSE(search.may_print());
}

}  // namespace
}  // namespace barcuda
