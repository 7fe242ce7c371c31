// SPDX-License-Identifier: Apache-2.0
// snapshot_test: a reader finds all of what the monitor wrote, or nothing; and how a question of NVML's table is asked,
// stored, and answered.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "shm-device/region/snapshot.h"
#include "shm-device/rows/nvml_rows.h"

namespace barcuda {
namespace {

using snapshot::Read;

// A snapshot's part of a region.
struct Part {
    alignas(4096) std::byte memory[BARCUDA_SNAPSHOT_SIZE]{};
    barcuda_snapshot& head() { return *reinterpret_cast<barcuda_snapshot*>(memory); }
};

struct Contents {
    explicit Contents(std::uint64_t value) : words(8, value) {
        const std::uint32_t begin = snapshot::contents_offset(2);
        answers = {{.identity = 11, .offset = begin, .bytes = 32}, {.identity = 22, .offset = begin + 32, .bytes = 32}};
        process.used_memory = value;
    }
    void write(Part& part) const {
        snapshot::write(part.head(), {answers, std::as_bytes(std::span(words)), {&process, 1}, 0});
    }
    std::vector<barcuda_answers> answers;
    std::vector<std::uint64_t> words;
    barcuda_process process{};
};

Read read(Part& part, std::uint64_t identity, std::size_t n, std::size_t count, std::uint64_t (&to)[2]) {
    return snapshot::answer(part.head(), identity, n, count, std::as_writable_bytes(std::span(to)));
}

TEST(Snapshot, IsEmptyUntilTheFirstSweep) {
    auto part = std::make_unique<Part>();
    std::uint64_t to[2];
    EXPECT_EQ(read(*part, 11, 0, 2, to), Read::empty);
}

TEST(Snapshot, GivesTheAnswerOfARowByItsIdentity) {
    auto part = std::make_unique<Part>();
    Contents contents(0);
    for (std::size_t i = 0; i < 8; ++i) contents.words[i] = i;
    contents.write(*part);
    std::uint64_t to[2];
    ASSERT_EQ(read(*part, 22, 1, 2, to), Read::done);
    EXPECT_EQ(to[0], 6u);
    EXPECT_EQ(to[1], 7u);
    barcuda_process process;
    std::size_t found = 0;
    ASSERT_EQ(snapshot::processes(part->head(), {&process, 1}, found), Read::done);
    EXPECT_EQ(found, 1u);
}

TEST(Snapshot, HasNothingForARowOfAnotherBuild) {
    auto part = std::make_unique<Part>();
    Contents(5).write(*part);
    std::uint64_t to[2];
    EXPECT_EQ(read(*part, 33, 0, 2, to), Read::absent);
    EXPECT_EQ(read(*part, 11, 0, 3, to), Read::absent) << "of another number of keys";
    EXPECT_EQ(read(*part, 11, 2, 2, to), Read::absent) << "beyond the last";
}

TEST(Snapshot, ListsPausedClientsWhereTheBridgeDoes) {
    auto part = std::make_unique<Part>();
    snapshot::PausedClients written{}, to{};
    written[0] = {4711, BARCUDA_PAUSED_AWAY};
    written[255] = {1, BARCUDA_PAUSED_HELD};
    Contents(5).write(*part);
    EXPECT_EQ(snapshot::paused(part->head(), to), Read::absent);
    const barcuda_answers answers{snapshot::paused_clients, snapshot::contents_offset(1), sizeof written};
    snapshot::write(part->head(), {{&answers, 1}, std::as_bytes(std::span(written)), {}, 0});
    ASSERT_EQ(snapshot::paused(part->head(), to), Read::done);
    EXPECT_EQ(to[0].pid, 4711u);
    EXPECT_EQ(to[0].how, BARCUDA_PAUSED_AWAY);
    EXPECT_EQ(to[255].pid, 1u);
}

TEST(Snapshot, LeadsNobodyOutOfIt) {
    auto part = std::make_unique<Part>();
    Contents contents(5);
    contents.write(*part);
    auto& row = *reinterpret_cast<barcuda_answers*>(part->memory + sizeof(barcuda_snapshot));
    std::uint64_t to[2];
    for (const std::uint32_t offset : {0xfffffff8u, static_cast<std::uint32_t>(BARCUDA_SNAPSHOT_SIZE) - 16, 1u}) {
        row.offset = offset;
        EXPECT_EQ(read(*part, 11, 0, 2, to), Read::absent) << offset;
    }
    part->head().answer_count = ~0u;
    EXPECT_EQ(read(*part, 11, 0, 2, to), Read::absent);
    part->head().process_count = ~0u;
    std::size_t found = 0;
    EXPECT_EQ(snapshot::processes(part->head(), {}, found), Read::absent);
}

TEST(Snapshot, OfAWriterThatDiedIsBusyAndTheNextWriterMendsIt) {
    auto part = std::make_unique<Part>();
    Contents(5).write(*part);
    part->head().sequence += 1;
    std::uint64_t to[2];
    EXPECT_EQ(read(*part, 11, 0, 2, to), Read::busy);
    Contents(6).write(*part);
    ASSERT_EQ(read(*part, 11, 0, 2, to), Read::done);
    EXPECT_EQ(to[0], 6u);
}

// An answer so long that the writer comes while the reader copies it.
TEST(Snapshot, IsNeverHalfOfTwoSweeps) {
    auto part = std::make_unique<Part>();
    const std::vector<std::uint64_t> sweeps[] = {std::vector<std::uint64_t>(8192, 2),
                                                 std::vector<std::uint64_t>(8192, ~0ull)};
    const barcuda_answers answers{.identity = 11, .offset = snapshot::contents_offset(1), .bytes = 8192 * 8};
    const auto write = [&](int i) {
        snapshot::write(part->head(), {{&answers, 1}, std::as_bytes(std::span(sweeps[i % 2])), {}, 0});
    };
    write(0);
    std::atomic<int> written{0};
    std::thread writer([&] {
        for (int i = 1; i <= 1000; written = i++) {
            write(i);
            std::this_thread::sleep_for(std::chrono::microseconds(50));  // let readers run
        }
    });
    int seen = 0;
    while (written < 1000) {
        std::vector<std::uint64_t> to(8192);
        if (snapshot::answer(part->head(), 11, 0, 1, std::as_writable_bytes(std::span(to))) != Read::done) continue;
        ++seen;
        EXPECT_EQ(to, sweeps[to[0] != 2]);
    }
    writer.join();
    EXPECT_GT(seen, 0);
}

namespace nvml_test {
using namespace nvml;
using namespace nvml::kind;
using nvml::Shape;

using Clock = Shape<device, key<4>, out<unsigned>>;
using Name = Shape<device, text<16>>;
using Versioned = Shape<device, versions<version<FabricV2, 2>, version<FabricV3, 3>>>;
using Clocks = Shape<device, list<unsigned, 4>>;
using Pair = Shape<device, peer, key<5>, out<unsigned>>;

Device host(std::uintptr_t n) { return reinterpret_cast<Device>(n); }
const Device hosts[] = {host(100), host(200), host(300)};

// Asks for answer n, and gives it to a caller with these arguments.
template <class S, class F, class... P> Status round_trip(F* function, P... given) {
    std::size_t n = 0;
    const typename S::Parameters all(given...);
    if (Status s = S::find(all, std::size(hosts), n); s != success) return s;
    EXPECT_LT(n, S::answers(std::size(hosts)));
    typename S::Answer answer;
    answer.set(S::ask(function, hosts, std::size(hosts), n, answer));
    return S::give(answer, all);
}

Status clock_of(Device device, unsigned type, unsigned* clock) {
    *clock = static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(device)) + type;
    return type == 3 ? not_supported : success;
}
TEST(NvmlRow, AsksForTheDeviceAndTheKeyThatTheCallerMeant) {
    for (unsigned d = 0; d < 3; ++d)
        for (unsigned type = 0; type < 3; ++type) {
            unsigned clock = 0;
            EXPECT_EQ(round_trip<Clock>(clock_of, Guest::handle(d), type, &clock), success);
            EXPECT_EQ(clock, (d + 1) * 100 + type);
        }
    unsigned clock = 7;
    EXPECT_EQ(round_trip<Clock>(clock_of, Guest::handle(0), 3u, &clock), not_supported);
    EXPECT_EQ(clock, 7u) << "what failed writes nothing";
}

TEST(NvmlRow, RefusesArgumentsThatNobodyHas) {
    unsigned clock = 0;
    EXPECT_EQ(round_trip<Clock>(clock_of, Guest::handle(3), 0u, &clock), invalid_argument);
    EXPECT_EQ(round_trip<Clock>(clock_of, Device(nullptr), 0u, &clock), invalid_argument);
    EXPECT_EQ(round_trip<Clock>(clock_of, host(100), 0u, &clock), invalid_argument) << "a handle of the host's";
    EXPECT_EQ(round_trip<Clock>(clock_of, Guest::handle(0), 4u, &clock), invalid_argument);
    EXPECT_EQ(round_trip<Clock>(clock_of, Guest::handle(0), 0u, static_cast<unsigned*>(nullptr)), invalid_argument);
}

Status pair_of(Device a, Device b, unsigned what, unsigned* out) {
    *out =
        static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(a) * 1000 + reinterpret_cast<std::uintptr_t>(b)) + what;
    return success;
}
TEST(NvmlRow, KnowsTheFirstDeviceFromTheSecond) {
    unsigned out = 0;
    EXPECT_EQ(round_trip<Pair>(pair_of, Guest::handle(2), Guest::handle(0), 4u, &out), success);
    EXPECT_EQ(out, 300104u);
}

Status name_of(Device, char* name, unsigned room) {
    std::strncpy(name, "a GPU", room);
    return success;
}
TEST(NvmlRow, GivesATextToWhoHasRoomForIt) {
    char name[6];
    EXPECT_EQ(round_trip<Name>(name_of, Guest::handle(0), name, 6u), success);
    EXPECT_STREQ(name, "a GPU");
    EXPECT_EQ(round_trip<Name>(name_of, Guest::handle(0), name, 5u), insufficient_size);
}

Status fabric_of(Device, void* out) {
    unsigned version = 0;
    std::memcpy(&version, out, sizeof version);
    if (version == version_of<FabricV2, 2>) {
        static_cast<FabricV2*>(out)->clique = 2;
        return success;
    }
    if (version == version_of<FabricV3, 3>) {
        static_cast<FabricV3*>(out)->clique = 3;
        return success;
    }
    return argument_version_mismatch;
}
TEST(NvmlRow, AnswersInTheVersionThatTheCallerMeans) {
    FabricV2 two{};
    FabricV3 three{};
    two.version = version_of<FabricV2, 2>;
    three.version = version_of<FabricV3, 3>;
    EXPECT_EQ(round_trip<Versioned>(fabric_of, Guest::handle(0), static_cast<void*>(&two)), success);
    EXPECT_EQ(round_trip<Versioned>(fabric_of, Guest::handle(0), static_cast<void*>(&three)), success);
    EXPECT_EQ(two.clique, 2u);
    EXPECT_EQ(three.clique, 3u);
    two.version = 1;
    EXPECT_EQ(round_trip<Versioned>(fabric_of, Guest::handle(0), static_cast<void*>(&two)), argument_version_mismatch);
}

Status clocks_of(Device, unsigned* count, unsigned* clocks) {
    if (*count < 3) return insufficient_size;
    for (unsigned i = 0; i < 3; ++i) clocks[i] = 1000 + i;
    *count = 3;
    return success;
}
TEST(NvmlRow, TellsHowManyThereAreToWhoHasNoRoom) {
    unsigned count = 0, clocks[4]{};
    EXPECT_EQ(round_trip<Clocks>(clocks_of, Guest::handle(0), &count, static_cast<unsigned*>(nullptr)),
              insufficient_size);
    EXPECT_EQ(count, 3u);
    count = 4;
    EXPECT_EQ(round_trip<Clocks>(clocks_of, Guest::handle(0), &count, static_cast<unsigned*>(clocks)), success);
    EXPECT_EQ(count, 3u);
    EXPECT_EQ(clocks[2], 1002u);
}

}  // namespace nvml_test
}  // namespace
}  // namespace barcuda
