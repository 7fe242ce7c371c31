// SPDX-License-Identifier: Apache-2.0
// requests_test: what the bridge takes for a request of a worker's: a message of a known form, and exactly as long as that form.
#include "host-bridge/bridge/requests.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace barcuda {
namespace {

template <class M> std::vector<char> bytes_of(const M& message) {
    const char* const first = reinterpret_cast<const char*>(&message);
    return {first, first + sizeof message};
}
std::vector<char> with_form(std::vector<char> message, std::uint32_t form) {
    std::memcpy(message.data(), &form, sizeof form);
    return message;
}

TEST(Requests, AreReadAsTheyWereSent) {
    const auto grant = read_request(bytes_of(Message<request::Grant>{.request = {4096}}));
    ASSERT_TRUE(grant && std::holds_alternative<request::Grant>(*grant));
    EXPECT_EQ(std::get<request::Grant>(*grant).bytes, 4096u);
    const auto repay = read_request(bytes_of(Message<request::Repay>{.request = {3, 5}}));
    ASSERT_TRUE(repay && std::holds_alternative<request::Repay>(*repay));
    EXPECT_EQ(std::get<request::Repay>(*repay).device, 3u);
    EXPECT_EQ(std::get<request::Repay>(*repay).bytes, 5u);
    const auto mapper = read_request(bytes_of(Message<request::Mapper>()));
    EXPECT_TRUE(mapper && std::holds_alternative<request::Mapper>(*mapper));
}

TEST(Requests, OfFormsOfTheSameLengthAreToldApart) {
    static_assert(sizeof(Message<request::Borrow>) == sizeof(Message<request::Repay>));
    const auto borrow = read_request(bytes_of(Message<request::Borrow>{.request = {0, 1}}));
    EXPECT_TRUE(borrow && std::holds_alternative<request::Borrow>(*borrow));
}

TEST(Requests, OfAnUnknownFormAreNone) {
    const std::vector<char> release = bytes_of(Message<request::Release>{.request = {0, 4096}});
    ASSERT_TRUE(read_request(release));
    EXPECT_FALSE(read_request(with_form(release, 0)));
    EXPECT_FALSE(read_request(with_form(release, std::variant_size_v<BridgeRequest> + 1)));
    EXPECT_FALSE(read_request(with_form(release, ~0u)));
}

TEST(Requests, OfAnotherFormsLengthAreNone) {
    const std::vector<char> grant = bytes_of(Message<request::Grant>{.request = {4096}});
    EXPECT_FALSE(read_request(with_form(grant, form_of<request::Release>())));
    EXPECT_FALSE(read_request(with_form(grant, form_of<request::Mapper>())));
}

TEST(Requests, OfAWrongLengthAreNone) {
    const std::vector<char> whole = bytes_of(Message<request::Withdraw>());
    ASSERT_TRUE(read_request(whole));
    for (std::size_t n = 0; n < whole.size(); ++n) EXPECT_FALSE(read_request(std::span(whole).first(n))) << n;
    std::vector<char> longer = whole;
    longer.push_back(0);
    EXPECT_FALSE(read_request(longer));
}

TEST(Requests, ThatSayAnotherLengthThanTheyHaveAreNone) {
    Message<request::Grant> grant{.request = {4096}};
    grant.bytes += 8;
    EXPECT_FALSE(read_request(bytes_of(grant)));
}

TEST(Requests, ForAKindThatThereIsNotAreNone) {
    constexpr auto last = Shared::Kind::pool, none = static_cast<Shared::Kind>(static_cast<std::uint64_t>(last) + 1);
    EXPECT_TRUE(read_request(bytes_of(Message<request::Share>{.request = {last, {}}})));
    EXPECT_FALSE(read_request(bytes_of(Message<request::Share>{.request = {none, {}}})));
    EXPECT_FALSE(read_request(bytes_of(Message<request::Find>{.request = {none, {}}})));
}

}  // namespace
}  // namespace barcuda
