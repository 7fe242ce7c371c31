// SPDX-License-Identifier: Apache-2.0
// What of an image is sent: of a fat binary the entries that a device of the program may run, and all that is not
// understood.
#include "guest-allocator/driver/image.h"

#include <cuda.h>
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "guest-allocator/client/host_rows.h"
#include "host-bridge/worker/session/session.h"
#include "tests/unit/support/container.h"
#include "tests/unit/support/host_side.h"

namespace barcuda {
namespace {

using fatbin::elf;
using fatbin::ptx;
using guest::Image;
using guest::Selection;
using test::Container;

constexpr int unknown = 8;

std::string gathered(const Selection& selection) {
    std::string all;
    for (const Image& piece : selection.pieces()) all.append(static_cast<const char*>(piece.start), piece.bytes);
    EXPECT_EQ(all.size(), selection.bytes());
    return all;
}
std::string sent(const std::string& image, const std::vector<int>& devices) {
    const std::string copy = image;  // on the heap: ASan sees a step too far
    return gathered(Selection({copy.data(), copy.size()}, devices));
}
std::string sent(const Container& container, const std::vector<int>& devices) { return sent(container.bytes, devices); }

// An entry of each kind for each of the architectures, with contents of its own.
Container all_of(std::initializer_list<int> kinds, std::initializer_list<int> architectures) {
    Container all;
    for (const int kind : kinds)
        for (const int a : architectures) all.add(kind, a, std::to_string(kind * 1000 + a) + std::string(a % 20, '.'));
    return all;
}
Container& operator+=(Container& to, const Container& all) {
    to.bytes += all.bytes.substr(sizeof(fatbin::ContainerHead));
    Container::put<std::uint64_t>(to.bytes, 8, to.bytes.size() - sizeof(fatbin::ContainerHead));
    return to;
}

// Options of a compiler are for it alone.
TEST(Images, OnlyPtxIsText) {
    EXPECT_TRUE(guest::is_text(guest::find_image(".version 7.0\n")));
    EXPECT_FALSE(guest::is_text(Image{}));
    EXPECT_FALSE(guest::is_text(Image{"\177ELF", 5}));
    const std::uint32_t container[2] = {fatbin::container_magic};
    EXPECT_FALSE(guest::is_text(Image{container, sizeof container}));
}

TEST(Selection, LeavesOutMachineCodeOfAnotherMajor) {
    const Container all = all_of({elf}, {50, 75, 80, 86, 89, 90, 100, 103, 120});
    EXPECT_EQ(all_of({elf}, {80, 86, 89}).bytes, sent(all, {86}));
    EXPECT_EQ(all_of({elf}, {90}).bytes, sent(all, {90}));
    EXPECT_EQ(all_of({elf}, {100, 103}).bytes, sent(all, {100}));
    EXPECT_EQ(all_of({elf}, {120}).bytes, sent(all, {121}));
}

TEST(Selection, LeavesOutPtxThatIsNewerThanEveryDevice) {
    const Container all = all_of({ptx}, {52, 80, 90, 100, 120});
    EXPECT_EQ(all_of({ptx}, {52, 80, 90}).bytes, sent(all, {90}));
    EXPECT_EQ(all_of({ptx}, {52, 80}).bytes, sent(all, {89}));
}

TEST(Selection, HasWhatAnyOfTheDevicesRuns) {
    const Container all = all_of({elf, ptx}, {60, 75, 80, 90, 120});
    Container kept = all_of({elf}, {75, 90});
    EXPECT_EQ((kept += all_of({ptx}, {60, 75, 80, 90})).bytes, sent(all, {75, 90}));
    EXPECT_EQ(sent(all, {75, 90}), sent(all, {90, 75}));
}

TEST(Selection, HasEveryEntryOfAKindThatIsNotKnown) {
    const Container all = all_of({unknown, elf, 4711}, {50, 90, 120});
    Container kept = all_of({unknown}, {50, 90, 120});
    kept += all_of({elf}, {90});
    EXPECT_EQ((kept += all_of({4711}, {50, 90, 120})).bytes, sent(all, {90}));
}

TEST(Selection, HasPackedEntriesAsTheyAre) {
    Container all, kept;
    const std::string text(1000, 'x');
    for (const auto packing : {test::Packing::lz4, test::Packing::zstd}) {
        all.add(elf, 80, text, packing).add(elf, 90, text, packing).add(ptx, 90, text, packing);
        kept.add(elf, 90, text, packing).add(ptx, 90, text, packing);
    }
    EXPECT_EQ(kept.bytes, sent(all, {90}));
}

TEST(Selection, IsTheWholeWhereNothingRuns) {
    for (const Container& all : {all_of({elf}, {75, 80}), all_of({ptx}, {100}), all_of({elf, ptx}, {100, 120}),
                                 all_of({elf, unknown}, {80}), Container()})
        EXPECT_EQ(all.bytes, sent(all, {90}));
}

TEST(Selection, IsTheWholeWhereTheDevicesAreNotKnown) {
    const Container all = all_of({elf}, {75, 80, 90});
    EXPECT_EQ(all.bytes, sent(all, {}));
    EXPECT_EQ(all.bytes, gathered(Selection({all.bytes.data(), all.bytes.size()})));
}

TEST(Selection, IsOnePieceWhereAllOfItRuns) {
    const Container all = all_of({elf}, {90});
    const Selection selection({all.bytes.data(), all.bytes.size()}, std::array{90});
    ASSERT_EQ(1u, selection.pieces().size());
    EXPECT_EQ(all.bytes.data(), selection.pieces()[0].start);
}

TEST(Selection, IsTheWholeOfWhatIsNoContainer) {
    for (const std::string& image :
         {std::string(".version 8.0\n"), std::string("\x7f") + "ELF", std::string(), std::string("\x50\xed\x55\xba")})
        EXPECT_EQ(image, sent(image, {90}));
}

TEST(Selection, IsTheWholeOfAContainerThatIsCutShort) {
    const Container all = all_of({elf, ptx}, {80, 90});
    for (std::size_t n = 0; n < all.bytes.size(); ++n)
        EXPECT_EQ(all.bytes.substr(0, n), sent(all.bytes.substr(0, n), {90})) << n;
}

TEST(Selection, IsTheWholeOfAContainerWhoseEntriesDoNotFillIt) {
    std::string image = all_of({elf, ptx}, {80, 90}).bytes;
    image += std::string(63, '\0');  // less than an entry
    Container::put<std::uint64_t>(image, 8, image.size() - sizeof(fatbin::ContainerHead));
    EXPECT_EQ(image, sent(image, {90}));
}

TEST(Selection, IsTheWholeOfAContainerWithALengthThatLies) {
    const std::string good = all_of({elf, ptx}, {80, 90}).bytes;
    const std::size_t entry = sizeof(fatbin::ContainerHead);
    for (const std::uint64_t lie : {std::uint64_t{1}, std::uint64_t{63}, std::uint64_t{1000}, ~std::uint64_t{0},
                                    ~std::uint64_t{0} - (Container::head_bytes - 1)})
        for (const std::size_t field : {std::size_t{8}, entry + 8}) {
            std::string bad = good;
            Container::put(bad, field, lie);
            EXPECT_EQ(bad, sent(bad, {90})) << lie << " at " << field;
        }
    for (const std::uint32_t lie : {0u, 63u, 1000u, ~0u}) {
        std::string bad = good;
        Container::put(bad, entry + 4, lie);
        EXPECT_EQ(bad, sent(bad, {90})) << lie;
    }
    for (const std::uint16_t lie : {0, 15, 0xffff}) {
        std::string bad = good;
        Container::put(bad, 6, lie);
        EXPECT_EQ(bad, sent(bad, {90})) << lie;
        EXPECT_STREQ("bad header length", fatbin::Reader(std::as_bytes(std::span(bad))).broken());
    }
}

TEST(Selection, HasALongerHeadOfTheContainerAndWhatStandsBehindIt) {
    const auto longer = [](const Container& container) {
        std::string image = container.bytes;
        image.insert(sizeof(fatbin::ContainerHead), "more head");
        Container::put<std::uint16_t>(image, 6, sizeof(fatbin::ContainerHead) + 9);
        return image + std::string("\0and more", 9);
    };
    EXPECT_EQ(longer(all_of({ptx}, {80, 90})), sent(longer(all_of({ptx}, {80, 90, 100})), {90}));
    EXPECT_EQ(longer(all_of({elf}, {80})), sent(longer(all_of({elf}, {70, 80})), {80}));
}

TEST(Selection, OfManyPiecesHasAllThatRunsAndReadsAsAContainer) {
    Container all;
    for (int i = 0; i < 100; ++i) all.add(elf, i % 2 ? 80 : 90, std::to_string(i));
    const std::string some = sent(all, {90});
    EXPECT_LT(some.size(), all.bytes.size());
    fatbin::Reader reader(std::as_bytes(std::span(some)));
    int for_90 = 0;
    for (fatbin::Reader::Entry entry; reader.next(entry);) for_90 += entry.head.architecture() == 90;
    EXPECT_EQ(nullptr, reader.broken());
    EXPECT_EQ(0u, reader.left());
    EXPECT_EQ(50, for_90);
}

TEST(Selection, LiesWithinTheImageWhateverStandsThere) {
    std::mt19937 random(1);
    const std::string good = all_of({elf, unknown, ptx}, {75, 80, 90, 120}).bytes;
    for (int round = 0; round < 20'000; ++round) {
        std::string image = good;
        for (int changes = static_cast<int>(random() % 4); changes >= 0; --changes)
            image[random() % image.size()] = static_cast<char>(random() % 4 ? random() : 0);
        image.resize(random() % 3 ? image.size() : random() % image.size());
        const std::string some = sent(image, {90});  // ASan looks on
        EXPECT_LE(some.size(), image.size());
    }
}

// ---- on its way -----------------------------------------------------------------------------------------------------
std::string loaded;  // what the driver got, to the end that it says it has
Driver watching_driver() {
    Driver d;
    EXPECT_EQ("", d.open(software_library()).text());
    d.cuModuleLoadDataEx = [](CUmodule*, const void* image, unsigned, CUjit_option*, void**) {
        const Image found = guest::find_image(image);
        loaded.assign(static_cast<const char*>(found.start), found.bytes);
        return CUDA_ERROR_NOT_FOUND;
    };
    return d;
}

TEST(AFatBinary, ReachesTheDriverWithoutWhatNoDeviceRuns) {
    test::as_client(true, watching_driver, [] {
        int major = 0, minor = 0;
        CUcontext context = nullptr;
        ASSERT_EQ(CUDA_SUCCESS, cuInit(0));
        ASSERT_EQ(CUDA_SUCCESS, cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0));
        ASSERT_EQ(CUDA_SUCCESS, cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0));
        ASSERT_EQ(CUDA_SUCCESS, cuDevicePrimaryCtxRetain(&context, 0));
        ASSERT_EQ(CUDA_SUCCESS, cuCtxSetCurrent(context));

        const int own = major * 10 + minor;
        const std::string code(200'000, 'c');  // more than goes in one part
        const Container all =
            Container().add(elf, own - 10, code).add(elf, own, code).add(elf, own + 10, code).add(ptx, own, code);
        const Container kept = Container().add(elf, own, code).add(ptx, own, code);
        const auto load = [&] {
            CUmodule module = nullptr;
            loaded.clear();
            EXPECT_EQ(CUDA_ERROR_NOT_FOUND, cuModuleLoadData(&module, all.bytes.data()));
            EXPECT_TRUE(kept.bytes == loaded) << loaded.size() << " bytes";
        };
        load();
        for (std::size_t bytes = 64 << 20; bytes >= 4096; bytes /= 2)
            for (void* p; cuMemAllocHost(&p, bytes) == CUDA_SUCCESS;) continue;  // the region is full: in parts
        load();
        for (const Op op : {Op::image_begin, Op::image_piece})
            guest::host_rows::numbers[static_cast<std::size_t>(op)] = no_row;  // as of an older bridge
        load();
    });
}

}  // namespace
}  // namespace barcuda
