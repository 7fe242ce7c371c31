// SPDX-License-Identifier: Apache-2.0
// From nvcc's fat binaries to PTX text: which entry is taken, and that no lie in a header is followed.
#include "soft-gpu/image.h"

#include <cuda.h>
#include <gtest/gtest.h>

#include "shm-device/cuda/fat_binary_reader.h"
#include "soft-gpu/engine.h"
#include "tests/unit/support/container.h"

namespace {

namespace fatbin = barcuda::fatbin;
using barcuda::soft::Error;
using barcuda::soft::ptx_of_bytes;
using barcuda::soft::ptx_of_image;
using barcuda::soft::select_ptx;
using barcuda::test::Container;
using barcuda::test::Packing;

int code_of(std::span<const std::byte> bytes, int capability = 90) {
    try {
        ptx_of_bytes(bytes, capability);
        return CUDA_SUCCESS;
    } catch (const Error& error) {
        EXPECT_FALSE(error.message.empty());
        return error.code;
    }
}

using barcuda::fatbin::elf;
using barcuda::fatbin::ptx;

TEST(FatBinary, IsReadPlainLz4AndZstd) {
    const std::string text = ".version 9.0\n.target sm_75\n" + std::string(500'000, 'x') + "\n";
    for (const Packing packing : {Packing::plain, Packing::lz4, Packing::zstd})
        EXPECT_EQ(text, select_ptx(Container().add(ptx, 75, text, packing).span(), 90));
}

TEST(FatBinary, TheNewestPtxThatTheDeviceMayRunIsTaken) {
    const Container container = Container()
                                    .add(ptx, 75, "a")
                                    .add(elf, 90,
                                         "\x7f"
                                         "ELF")
                                    .add(ptx, 86, "b")
                                    .add(ptx, 100, "c");
    EXPECT_EQ("b", select_ptx(container.span(), 90));
    EXPECT_EQ("a", select_ptx(container.span(), 80));
    EXPECT_EQ("c", select_ptx(container.span(), 120));
    EXPECT_EQ(CUDA_ERROR_NO_BINARY_FOR_GPU, code_of(container.span(), 70));
}

TEST(FatBinary, MachineCodeAloneIsNoBinaryForThisDevice) {
    EXPECT_EQ(CUDA_ERROR_NO_BINARY_FOR_GPU, code_of(Container()
                                                        .add(elf, 90,
                                                             "\x7f"
                                                             "ELF")
                                                        .span()));
    const std::string cubin(
        "\x7f"
        "ELF\2\1\1\0\0\0",
        10);
    EXPECT_EQ(CUDA_ERROR_NO_BINARY_FOR_GPU, code_of(std::as_bytes(std::span(cubin))));
}

TEST(FatBinary, AnImageIsAContainerAWrapperOrText) {
    const Container container = Container().add(ptx, 75, ".version 8.0");
    EXPECT_EQ(".version 8.0", ptx_of_image(container.bytes.data(), 90));
    const struct {
        std::uint32_t magic, version;
        const void *data, *others;
    } wrapper{0x466243b1, 1, container.bytes.data(), nullptr};
    EXPECT_EQ(".version 8.0", ptx_of_image(&wrapper, 90));
    EXPECT_EQ("//\n.version 8.0", ptx_of_image("//\n.version 8.0", 90));
    EXPECT_THROW(ptx_of_image("//", 90), Error) << "text, but no PTX";
    EXPECT_THROW(ptx_of_image("", 90), Error);
    EXPECT_THROW(ptx_of_image("\x01\x02", 90), Error);
}

TEST(FatBinary, EveryShorterPrefixIsRefusedOrHoldsLess) {
    const Container container = Container().add(ptx, 75, std::string(300, 'x'), Packing::zstd).add(ptx, 80, "y");
    for (std::size_t length = 4; length < container.bytes.size(); ++length) {  // less has no magic: it is text
        const std::string copy = container.bytes.substr(0, length);            // on the heap: ASan sees a step too far
        EXPECT_NE(CUDA_SUCCESS, code_of(std::as_bytes(std::span(copy)))) << length;
    }
}

TEST(FatBinary, ALengthThatLeadsOutsideIsRefused) {
    const std::string good = Container().add(ptx, 75, std::string(300, 'x'), Packing::zstd).bytes;
    for (const std::size_t field : {16 + 4, 16 + 8, 16 + 16, 16 + 56, 8}) {
        std::string bad = good;
        Container::put<std::uint32_t>(bad, field, 0xffffffff);
        EXPECT_EQ(CUDA_ERROR_INVALID_IMAGE, code_of(std::as_bytes(std::span(bad)))) << field;
    }
}

TEST(FatBinary, ATextThatIsNotWhatItsHeaderSaysIsRefused) {
    for (const Packing packing : {Packing::lz4, Packing::zstd}) {
        const std::string good = Container().add(ptx, 75, std::string(300, 'x'), packing).bytes;
        std::string longer = good, damaged = good;
        Container::put<std::uint64_t>(longer, 16 + 56, 301);
        EXPECT_EQ(CUDA_ERROR_INVALID_IMAGE, code_of(std::as_bytes(std::span(longer))));
        Container::put<std::uint32_t>(damaged, 16 + 80, 0xffffffff);
        EXPECT_EQ(CUDA_ERROR_INVALID_IMAGE, code_of(std::as_bytes(std::span(damaged))));
    }
}

// ---- looked through -----------------------------------------------------------------------------------------------
fatbin::Entry only_entry(const Container& container) { return fatbin::entries(container.span()).at(0); }

TEST(FatBinary, HoldsAWordWhereverItStands) {
    const std::size_t piece = ZSTD_DStreamOutSize();
    for (const Packing packing : {Packing::plain, Packing::lz4, Packing::zstd}) {
        std::string text(3 * piece, 'x');
        for (std::size_t i = 0; i < text.size(); ++i) text[i] = "vprint"[i * 7919 % 6];  // no f
        EXPECT_FALSE(fatbin::holds(only_entry(Container().add(ptx, 75, text, packing)), "vprintf"));
        for (const std::size_t around : {std::size_t{0}, piece, 2 * piece, text.size()})
            for (std::size_t at = around < 8 ? 0 : around - 8; at <= around + 1 && at + 7 <= text.size(); ++at) {
                std::string with = text;
                with.replace(at, 7, "vprintf");
                EXPECT_TRUE(fatbin::holds(only_entry(Container().add(elf, 75, with, packing)), "vprintf")) << at;
            }
    }
}

TEST(FatBinary, WhoseTextIsNotWhatItsHeaderSaysHoldsNothing) {
    for (const Packing packing : {Packing::lz4, Packing::zstd}) {
        Container container = Container().add(ptx, 75, std::string(300, 'x'), packing);
        for (const std::uint64_t length : {std::uint64_t{299}, std::uint64_t{301}, std::uint64_t{256 << 20}}) {
            Container::put(container.bytes, sizeof(fatbin::ContainerHead) + offsetof(fatbin::EntryHead, plain_bytes),
                           length);
            EXPECT_THROW(fatbin::holds(only_entry(container), "vprintf"), fatbin::Error) << length;
        }
    }
}

}  // namespace
