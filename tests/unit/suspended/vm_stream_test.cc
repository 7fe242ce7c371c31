// SPDX-License-Identifier: Apache-2.0
// vm_stream_test: a stream of QEMU's, in which the region's block loses its address, and nothing else changes; and
// what is no such stream.
#include "host-bridge/suspended/vm_stream.h"

#include <gtest/gtest.h>

#include <string>

namespace barcuda {
namespace {

std::string word(std::uint64_t value) {
    std::string text;
    for (int shift = 56; shift >= 0; shift -= 8) text += static_cast<char>(value >> shift);
    return text;
}
std::string block(const std::string& name, std::uint64_t bytes, std::uint64_t address) {
    return static_cast<char>(name.size()) + name + word(bytes) + word(address);
}

constexpr std::uint64_t size = 1 << 30, memory = 512 << 20;

// As QEMU 7.2 writes it: the form's number, the machine, the capabilities, and the list of blocks.
std::string stream(const std::string& region, std::uint64_t bytes, std::uint64_t address) {
    using namespace std::string_literals;
    return "QEVM\0\0\0\3\7\0\0\0\npc-q35-7.2\5\32configuration/capabilities\0\0\0\1\0\0\0\1\17x-ignore-shared"s +
           "\1\0\0\0\2\3ram\0\0\0\0\0\0\0\4"s + word((memory + bytes) | 4) + block("pc.ram", memory, 0) +
           block(region, bytes, address) + word(16) + "pages";
}

struct Changed {
    std::string why, bytes;
    unsigned count = 0;
};
Changed changed(std::string bytes, const std::vector<std::string>& memories = {"barcuda"}) {
    Changed result;
    result.why = forget_addresses(std::as_writable_bytes(std::span(bytes)), memories, size, result.count).text();
    result.bytes = bytes;
    return result;
}

TEST(VmStream, TheRegionLosesItsAddressAndNothingElseChanges) {
    const Changed result = changed(stream("0000:00:01.0/barcuda", size, 0x100000000));
    EXPECT_EQ(result.why, "");
    EXPECT_EQ(result.count, 1U);
    EXPECT_EQ(result.bytes, stream("0000:00:01.0/barcuda", size, 0));
}

TEST(VmStream, AnotherBlockKeepsItsAddress) {
    for (const std::string& other : {stream("0000:00:01.0/xbarcuda", size, 7), stream("barcuda", size, 7),
                                     stream("0000:00:01.0/barcuda", size / 2, 7)}) {
        const Changed result = changed(other);
        EXPECT_EQ(result.why, "");
        EXPECT_EQ(result.count, 0U);
        EXPECT_EQ(result.bytes, other);
    }
}

TEST(VmStream, WhatIsCutShortOrOfAnotherFormIsRefused) {
    const std::string whole = stream("0000:00:01.0/barcuda", size, 7);
    const std::size_t list = whole.size() - 13;  // a word and five letters less
    for (std::size_t length = 0; length < list; ++length) EXPECT_NE(changed(whole.substr(0, length)).why, "") << length;
    EXPECT_EQ(changed(whole.substr(0, list)).why, "");
    EXPECT_NE(changed("x" + whole).why, "");
    std::string other = whole;
    other.replace(other.find("\3ram") + 11, 1, "\5");  // the number of the RAM's form
    EXPECT_NE(changed(other).why, "");
}

}  // namespace
}  // namespace barcuda
