// SPDX-License-Identifier: Apache-2.0
// packet_test: how values lie in a packet; and, for each row of the command table, that a request is taken apart as it
// was put together, and that whatever is cut off or added is noticed.
#include "shm-device/queue/packet.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "tests/unit/support/sample.h"

namespace barcuda {
namespace {

TEST(Packet, ValuesLieAtMultiplesOfEight) {
    std::byte bytes[32] = {};
    Writer w(bytes);
    w.put(std::uint8_t{1});
    w.put(std::uint64_t{2});
    EXPECT_EQ(w.used(), 16u);
    EXPECT_EQ(bytes[8], std::byte{2});
}
TEST(Packet, WhatWasWrittenIsRead) {
    std::byte bytes[64] = {};
    Writer w(bytes);
    w.put(std::uint32_t{7});
    w.put(3.5);
    Reader r(std::span(bytes, w.used()));
    std::uint32_t a = 0;
    double b = 0;
    EXPECT_TRUE(r.get(a) && r.get(b) && r.done());
    EXPECT_EQ(a, 7u);
    EXPECT_EQ(b, 3.5);
}
TEST(Packet, NoStaleBytesTravelInThePadding) {
    std::byte bytes[8];
    std::fill(std::begin(bytes), std::end(bytes), std::byte{0xee});
    Writer w(bytes);
    w.put(std::uint8_t{1});
    EXPECT_EQ(bytes[7], std::byte{0});
}
TEST(Packet, AWriterThatIsFullStaysFull) {
    std::byte bytes[8];
    Writer w(bytes);
    w.put(std::uint64_t{1});
    w.put(std::uint8_t{2});
    EXPECT_FALSE(w.ok());
    EXPECT_EQ(w.skip(0), nullptr);
}
TEST(Packet, AReaderThatHasRefusedOnceRefusesForGood) {
    const std::byte bytes[16] = {};
    Reader r(bytes);
    EXPECT_EQ(r.skip(17), nullptr);
    EXPECT_EQ(r.skip(1), nullptr);
    EXPECT_FALSE(r.done());
}
TEST(Packet, ALengthNearTheTopOfTheNumbersIsRefused) {
    const std::byte bytes[16] = {};
    for (std::size_t n : {~std::size_t{0}, ~std::size_t{0} - 7, ~std::size_t{0} - 8}) {
        Reader r(bytes);
        EXPECT_EQ(r.skip(n), nullptr) << n;
    }
}
TEST(Packet, BytesLeftOverAreNoticed) {
    const std::byte bytes[16] = {};
    Reader r(bytes);
    std::uint64_t a = 0;
    EXPECT_TRUE(r.get(a));
    EXPECT_FALSE(r.done());
}

// ---- every row ------------------------------------------------------------------------------------------------------
struct Host {};  // reading asks nothing of it

template <Op op> bool reads_whole(std::span<const std::byte> bytes) {
    typename RowOf<op>::Parameters parameters{};
    Reader r(bytes);
    Host host;
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
        return (std::get<I>(parameters).read(r, host) && ...) && r.done();
    }
    (std::make_index_sequence<RowOf<op>::count>{});
}

struct Row {
    const char* name;
    Op op;
    bool (*reads_whole)(std::span<const std::byte>);
};
class Rows : public testing::TestWithParam<Row> {
  protected:
    std::vector<std::byte> bytes() {
        sample::Guest guest;
        auto arguments = std::make_unique<sample::Arguments>();
        return sample::request(GetParam().op, guest, *arguments);
    }
};

TEST_P(Rows, AnHonestRequestIsReadWhole) { EXPECT_TRUE(GetParam().reads_whole(bytes())); }
TEST_P(Rows, EveryTruncatedPrefixIsRefused) {
    const auto all = bytes();
    for (std::size_t n = 0; n < all.size(); ++n)
        EXPECT_FALSE(GetParam().reads_whole(std::span(all).first(n))) << n << " of " << all.size() << " bytes";
}
TEST_P(Rows, BytesBehindTheLastValueAreRefused) {
    auto longer = bytes();
    longer.resize(longer.size() + 8);
    EXPECT_FALSE(GetParam().reads_whole(longer));
}
std::vector<Row> rows() {
    return {
#define X(name, ...) {#name, Op::name, &reads_whole<Op::name>},
        BARCUDA_ROWS(X)
#undef X
    };
}
INSTANTIATE_TEST_SUITE_P(Commands, Rows, testing::ValuesIn(rows()),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace barcuda
