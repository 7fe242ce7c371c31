// SPDX-License-Identifier: Apache-2.0
// code_store_test: images of code by their content, and a store that has a size.
#include "host-bridge/worker/births/code_store.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "base/content_hash.h"

namespace barcuda {
namespace {

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }
std::string text_of(const CodeStore::Ref& image) {
    const auto at = image->map();
    return {reinterpret_cast<const char*>(at.get()), image->bytes};
}

TEST(CodeStore, KeepsWhatIsEqualOnce) {
    CodeStore store;
    const CodeStore::Ref one = store.keep(bytes_of("kernel")), again = store.keep(bytes_of("kernel"));
    const CodeStore::Ref other = store.keep(bytes_of("kernel!"));
    EXPECT_EQ(one, again);
    EXPECT_NE(one, other);
    EXPECT_EQ(store.count(), 2u);
    EXPECT_EQ(text_of(one), "kernel");
    EXPECT_EQ(text_of(other), "kernel!");
}
TEST(CodeStore, HasRoomForWhatFitsAndReusesWhatNoClientHas) {
    CodeStore store(3 * 4096);
    CodeStore::Ref a = store.keep(bytes_of(std::string(4096, 'a'))), b = store.keep(bytes_of(std::string(4097, 'b')));
    ASSERT_TRUE(a && b);
    EXPECT_FALSE(store.keep(bytes_of("c")));
    a.reset();
    const CodeStore::Ref c = store.keep(bytes_of("c"));
    ASSERT_TRUE(c);
    EXPECT_EQ(text_of(b), std::string(4097, 'b'));
    EXPECT_EQ(text_of(c), "c");
    EXPECT_EQ(store.count(), 2u);
}
TEST(CodeStore, RefusesNothing) {  // no bytes
    CodeStore store;
    EXPECT_FALSE(store.keep({}));
}

TEST(ContentHash, DiffersForEachByteAndEachLength) {
    std::vector<std::byte> bytes(100);
    std::set<std::uint64_t> seen;
    for (std::size_t length = 0; length <= bytes.size(); ++length)
        EXPECT_TRUE(seen.insert(content_hash(std::span(bytes).first(length))).second) << length;
    for (std::byte& byte : bytes)
        for (int bit = 0; bit < 8; ++bit) {
            byte ^= std::byte{1} << bit;
            EXPECT_TRUE(seen.insert(content_hash(bytes)).second);
            byte ^= std::byte{1} << bit;
        }
}

}  // namespace
}  // namespace barcuda
