// SPDX-License-Identifier: Apache-2.0
// births_generated_test: what rows leave behind comes again in another worker, or is refused by the row's name. The
// commands are made from the table, as those of hostile clients are (tests/hostile/generator.h): for each row that
// leaves something behind, and in random programs that are interrupted behind each of their commands.
//
// A client in one process writes itself down, and then goes on there. In another process it is woken, and is sent the
// same commands: each must be answered alike. In the end both are written down, and every byte must be the same.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "shm-device/rows/lives.h"
#include "tests/hostile/generator.h"
#include "tests/unit/support/carried.h"
#include "tests/unit/support/sanitized.h"

namespace barcuda {
namespace {

using hostile::Generator;

// A command as it was sent, and what came of it.
struct Sent {
    struct Head {
        Op op{};
        std::uint32_t context = 0, answered = 0;
        CUresult result{};
        std::uint64_t body = 0, reply = 0;  // bytes
    } head{};
    std::vector<std::byte> body{}, reply{};
};

// The worker is in this process, and so is the client's region. Each extent but the first one can be released.
class Beside : public hostile::Stage {
  public:
    explicit Beside(CarriedClient& client) : client_(client) {}
    std::uint64_t offset_of(const void* p) const override {
        return reinterpret_cast<std::uint64_t>(p) - fake::ground_base;
    }
    // There is no channel: its fences are words of the first extent.
    std::uint64_t channel_offset() const override { return fake::Ground::granted / 2; }
    std::span<std::byte> extent(std::uint64_t bytes) override {
        if (next_ == 0) {
            next_ = fake::Ground::granted;
            return at(first, fake::Ground::granted - first);
        }
        if (next_ + bytes > fake::Ground::bytes || client_.ground.extents.map(next_, bytes)) return {};
        return at(std::exchange(next_, next_ + bytes), bytes);
    }
    std::span<std::byte> request_memory() const override { return request_; }
    RowNumber number_of(Op op) const override { return static_cast<RowNumber>(op); }

  private:
    static constexpr std::uint64_t first = 1 << 20;  // an offset of zero is no image
    static std::span<std::byte> at(std::uint64_t offset, std::uint64_t bytes) {
        return {reinterpret_cast<std::byte*>(fake::ground_base + offset), bytes};
    }
    CarriedClient& client_;
    std::uint64_t next_ = 0;
    mutable std::vector<std::byte> request_ = std::vector<std::byte>(64 << 10);
};

CUresult perform(CarriedClient& client, Sent& sent) {
    static std::vector<std::byte> room(1 << 20);
    Writer reply(room);
    const Verdict verdict =
        barcuda::perform(client.session(), {static_cast<RowNumber>(sent.head.op), sent.head.context}, sent.body,
                         sent.head.answered != 0, reply);
    sent.head.result = verdict.lie ? CUDA_ERROR_UNKNOWN : verdict.result;
    sent.reply.assign(room.begin(), room.begin() + static_cast<std::ptrdiff_t>(verdict.ok() ? reply.used() : 0));
    // One command at a time: what streams do at once may come out in any order. And whether the code prints is known
    // when a thread has looked through it.
    while (client.session().print_search().looks()) std::this_thread::yield();
    if (!client.session().births().captures()) client.wait();
    return sent.head.result;
}

// Processes hand commands to each other.
class Log {
  public:
    void write(const std::vector<Sent>& all) const {
        for (Sent sent : all) {
            sent.head.body = sent.body.size();
            sent.head.reply = sent.reply.size();
            for (const std::span<const std::byte> bytes :
                 {std::as_bytes(std::span(&sent.head, 1)), std::span<const std::byte>(sent.body),
                  std::span<const std::byte>(sent.reply)})
                EXPECT_EQ(static_cast<ssize_t>(bytes.size()), ::write(file_.fd(), bytes.data(), bytes.size()));
        }
    }
    std::vector<Sent> read() const {
        const std::vector<std::byte> bytes = CarriedParts::bytes_of(file_);
        std::vector<Sent> all;
        const std::byte* at = bytes.data();
        const auto take = [&](void* to, std::size_t count) {
            std::copy_n(at, count, static_cast<std::byte*>(to));
            at += count;
        };
        while (at != bytes.data() + bytes.size()) {
            Sent& sent = all.emplace_back();
            take(&sent.head, sizeof sent.head);
            sent.body.resize(sent.head.body);
            sent.reply.resize(sent.head.reply);
            take(sent.body.data(), sent.body.size());
            take(sent.reply.data(), sent.reply.size());
        }
        return all;
    }

  private:
    const File file_ = CarriedParts::file();
};

// ---- rows

constexpr std::size_t all_rows = static_cast<std::size_t>(Op::count);
std::string name_of(Op op) { return std::string(op_names[static_cast<std::size_t>(op)]); }

bool crosses(Op op) { return hostile::row(op).how != How::guest; }
std::vector<Op> rows_that(bool (*fit)(Op)) {
    std::vector<Op> all;
    for (std::size_t i = 0; i < all_rows; ++i)
        if (const auto op = static_cast<Op>(i); crosses(op) && fit(op)) all.push_back(op);
    return all;
}
bool leaves_something(Op op) { return rule_of(op).carry != Carry::unsaid; }
// Its answer is true of this process, or of this moment, alone.
bool tells_of_the_process(Op op) {
    switch (op) {
        case Op::cuMemGetInfo_v2:  // memory that is put off, or kept for what comes next, is not free
        case Op::graph_text:       // has addresses of the driver's
        case Op::take_activity:    // has times; and what records name things by are numbers of the process
        case Op::activity_context:
        case Op::activity_stream:
        case Op::activity_graph:
        case Op::activity_exec:
        case Op::activity_node:
        case Op::load_log:  // of the last load, if that wanted a log: it is asked for right behind that
            return true;
        default: return false;
    }
}
bool asks(Op op) { return has(op, trait::asks) && !leaves_something(op) && !tells_of_the_process(op); }
bool works(Op op) { return has(op, trait::work | trait::copies) && !leaves_something(op); }
bool ends_much(Op op) { return op == Op::cuDevicePrimaryCtxReset_v2 || op == Op::cuCtxDestroy_v2; }
// Planes are parts of arrays whose contents are not read, and what ends is of such a thing.
bool may_be_refused(Op op) {
    const Carry carry = rule_of(op).carry;
    return carry == Carry::refused || carry == Carry::nothing || carry == Carry::ends || op == Op::cuArrayGetPlane;
}
// In one process they give what is there already: it is another row's.
bool opens_its_own(Op op) { return op == Op::cuMemPoolImportPointer; }
bool begins_a_capture(Op op) { return op == Op::cuStreamBeginCapture_v2 || op == Op::cuStreamBeginCaptureToGraph; }

const std::vector<Op> questions = rows_that(asks), work = rows_that(works);

// ---- a client, and the commands that are made for it

class Program {
  public:
    Program(CarriedClient& client, unsigned seed) : client_(client), random_(seed) { EXPECT_TRUE(generator_.begin()); }

    CUresult send(Op op) {
        hostile::Pending& pending = *pending_;
        generator_.build(op, pending, 0);
        Sent sent;
        RequestHead head{};
        std::memcpy(&head, stage_.request_memory().data(), sizeof head);
        sent.head = {op, head.context, pending.answered, {}, 0, 0};
        const auto bytes = stage_.request_memory().first(pending.request_bytes).subspan(sizeof head);
        sent.body.assign(bytes.begin(), bytes.end());
        const CUresult result = perform(client_, sent);
        generator_.learn(pending, result, sent.reply);
        sent_.push_back(std::move(sent));
        return result;
    }
    // Sends the row, and what the generator says that it lacks, until the row has succeeded.
    bool make(Op op) {
        for (unsigned tries = 0; tries < most_tries; ++tries) {
            const Op next = next_for(op);
            if (send(next) == CUDA_SUCCESS && next == op) return true;
        }
        return false;
    }
    void end_captures() {
        for (unsigned tries = 0; tries < most_tries && client_.session().births().captures(); ++tries)
            send(Op::cuStreamEndCapture);
        client_.wait();
    }
    // And maps physical memory, or releases it.
    void settle() {
        end_captures();
        if (!known_.of(hostile::tag<CUmemGenericAllocationHandle>()).empty()) {
            for (unsigned times = 0; times < 3; ++times) make(Op::cuMemMap);
            for (const Op op : {Op::cuMemSetAccess, Op::cuMemRelease})
                for (unsigned tries = 0; tries < 20; ++tries) send(op);
        }
        client_.wait();
    }
    // One of these rows, or what the commands before have lacked of them.
    void send_one_of(const std::vector<Op>& rows) {
        Op op = random_.pick(rows);
        if (known_.of(hostile::tag<CUcontext>()).empty()) op = Op::cuDevicePrimaryCtxRetain;
        else if (random_.chance(70))
            for (auto wanted = generator_.next_wanted(); wanted; wanted = generator_.next_wanted())
                if (std::ranges::find(rows, *wanted) != rows.end()) {
                    op = *wanted;
                    break;
                }
        send(op);
    }
    // Some of each of these rows.
    void send_each(const std::vector<Op>& rows, unsigned times = 1) {
        for (unsigned i = 0; i < times; ++i)
            for (const Op op : rows) send(op);
    }
    // What was sent since this was called last.
    std::vector<Sent> take_sent() { return std::exchange(sent_, {}); }

  private:
    static constexpr unsigned most_tries = 200;

    Op next_for(Op op) {
        if (known_.of(hostile::tag<CUcontext>()).empty()) return Op::cuDevicePrimaryCtxRetain;
        const bool refused = rule_of(op).carry == Carry::refused || rule_of(op).carry == Carry::ends;
        for (auto wanted = generator_.next_wanted(); wanted; wanted = generator_.next_wanted())
            if (refused || rule_of(*wanted).carry != Carry::refused) return *wanted;
        return op;
    }

    CarriedClient& client_;
    Beside stage_{client_};
    hostile::Tokens tokens_{};
    hostile::Known known_{tokens_};
    hostile::Random random_;
    Generator generator_{stage_, known_, random_};
    std::vector<Sent> sent_;
    const std::unique_ptr<hostile::Pending> pending_ = std::make_unique<hostile::Pending>();
};

// ---- one process, and the next

// The region, and what is written of a client behind its first commands and behind its last ones.
struct Journey {
    struct End {
        const CarriedParts parts{};
        const File said = CarriedParts::file();  // what stood in the way
        void write(CarriedClient& client) const {
            const std::string what = parts.write(client).what;
            EXPECT_EQ(static_cast<ssize_t>(what.size()), pwrite(said.fd(), what.data(), what.size(), 0));
        }
        bool operator==(const End& other) const {
            const auto same = [](const File& one, const File& two) {
                return CarriedParts::bytes_of(one) == CarriedParts::bytes_of(two);
            };
            return same(said, other.said) && std::ranges::equal(parts.files, other.parts.files, same);
        }
    };
    const File region = file_of_region(), same_region = file_of_region();
    const CarriedParts parts{};
    const End end_here, end_there;
    const Log log;

    static File file_of_region() {
        File file(memfd_create("region", MFD_CLOEXEC));
        EXPECT_EQ(0, ftruncate(file.fd(), fake::Ground::bytes));
        return file;
    }
    static constexpr std::size_t most_bytes = 1 << 20;
    struct Piece {
        off_t at;
        std::size_t bytes;  // at most most_bytes
    };
    // Where the region has pages. (What was never written to is zeros in both.)
    static std::vector<Piece> pieces_of(const File& file) {
        std::vector<Piece> pieces;
        for (off_t at = 0; (at = lseek(file.fd(), at, SEEK_DATA)) >= 0;)
            for (const off_t end = lseek(file.fd(), at, SEEK_HOLE); at < end;) {
                const auto bytes = std::min(static_cast<std::size_t>(end - at), most_bytes);
                pieces.push_back({at, bytes});
                at += static_cast<off_t>(bytes);
            }
        return pieces;
    }
    bool has_equal_regions() const {
        std::vector<std::byte> here(most_bytes), there(most_bytes);
        for (const File* of : {&region, &same_region})
            for (const auto& [at, bytes] : pieces_of(*of))
                if (pread(region.fd(), here.data(), bytes, at) != pread(same_region.fd(), there.data(), bytes, at) ||
                    memcmp(here.data(), there.data(), bytes) != 0)
                    return false;
        return true;
    }
    void copy_region() const {
        std::vector<std::byte> piece(most_bytes);
        for (const auto& [at, bytes] : pieces_of(region)) {
            ASSERT_EQ(pread(region.fd(), piece.data(), bytes, at), static_cast<ssize_t>(bytes));
            ASSERT_EQ(pwrite(same_region.fd(), piece.data(), bytes, at), static_cast<ssize_t>(bytes));
        }
    }
};

std::unique_ptr<CarriedClient> client_of(const File& region, bool watched) {
    if (watched) return std::make_unique<CarriedClient>(CarriedClient::Watched{}, region.fd());
    return std::make_unique<CarriedClient>(region.fd());
}

// The same commands in the next process.
void go_on(const Journey& journey, bool watched) {
    const auto client = client_of(journey.same_region, watched);
    ASSERT_EQ("", journey.parts.wake(*client).text());
    std::string before;
    for (const Sent& sent : journey.log.read()) {
        Sent again = sent;
        perform(*client, again);
        ASSERT_EQ(again.head.result, sent.head.result) << name_of(sent.head.op) << "; before it" << before;
        ASSERT_TRUE(again.reply == sent.reply) << name_of(sent.head.op) << " is answered differently";
        if (leaves_something(sent.head.op) && sent.head.result == CUDA_SUCCESS) before += " " + name_of(sent.head.op);
    }
    client->wait();
    journey.end_there.write(*client);
}

void expect_equal_ends(const Journey& journey) {
    EXPECT_TRUE(journey.end_here == journey.end_there) << "what the two have in the end differs";
    EXPECT_TRUE(journey.has_equal_regions()) << "the region's bytes differ";
}

// ---- each row

// What became of a row, told to the parent.
struct Outcome {
    enum { not_made, refused, carried } what;
    char hindrance[512], cure[512];
};

class BirthsOfRows : public testing::TestWithParam<Op> {
  protected:
    Outcome* const outcome = static_cast<Outcome*>(
        mmap(nullptr, sizeof(Outcome), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    ~BirthsOfRows() override { munmap(outcome, sizeof(Outcome)); }

    void make(const Journey& journey, Op op, unsigned seed, bool watched) const {
        const auto client = client_of(journey.region, watched);
        Program program(*client, seed);
        *outcome = {};
        if (!program.make(op)) return;
        for (unsigned more = 0; more < 2 && rule_of(op).carry != Carry::refused && !ends_much(op); ++more)
            program.make(op);
        if (!begins_a_capture(op)) program.settle();
        const Hindrance hindrance = journey.parts.write(*client);
        outcome->what = hindrance.what.empty() ? Outcome::carried : Outcome::refused;
        hindrance.what.copy(outcome->hindrance, sizeof outcome->hindrance - 1);
        hindrance.cure.copy(outcome->cure, sizeof outcome->cure - 1);
        if (outcome->what != Outcome::carried) return;
        journey.copy_region();
        program.take_sent();
        program.send_each(questions, 2);
        program.send_each(work);
        journey.log.write(program.take_sent());
        journey.end_here.write(*client);
    }
};

TEST_P(BirthsOfRows, IsCarriedOrRefused) {
    const Op op = GetParam();
    const bool must_refuse = rule_of(op).carry == Carry::refused;
    constexpr unsigned seeds = 6;
    for (const bool watched : {false, true})
        for (unsigned seed = 1; seed <= seeds; ++seed) {
            const Journey journey{};
            in_a_process([&] { make(journey, op, seed, watched); });
            if (HasFatalFailure()) return;
            const std::string what = outcome->hindrance;
            if (outcome->what == Outcome::carried) {
                EXPECT_FALSE(must_refuse) << "the rule says that it is refused";
                in_a_process([&] { go_on(journey, watched); });
                return expect_equal_ends(journey);
            }
            if (outcome->what == Outcome::refused && may_be_refused(op)) {
                EXPECT_STRNE(outcome->cure, "") << what;
                if (must_refuse) { EXPECT_NE(what.find(rule_of(op).why->what), std::string::npos) << what; }
                if (must_refuse && !opens_its_own(op)) { EXPECT_NE(what.find(name_of(op)), std::string::npos) << what; }
                return;
            }
        }
    if (outcome->what == Outcome::refused) FAIL() << outcome->hindrance;
    FAIL() << "no commands were found that make it: teach the generator (tests/hostile/honest.h)";
}
// Two processes a row take seven times as long under a sanitizer, to which all rows are the same code: it sees each
// fourth one.
std::vector<Op> carried_rows() {
    std::vector<Op> rows = rows_that(leaves_something);
    if (!sanitized) return rows;
    for (std::size_t i = 0; i * 4 < rows.size(); ++i) rows[i] = rows[i * 4];
    rows.resize((rows.size() + 3) / 4);
    return rows;
}
INSTANTIATE_TEST_SUITE_P(Each, BirthsOfRows, testing::ValuesIn(carried_rows()),
                         [](const auto& info) { return name_of(info.param); });

// ---- programs

// What a program has done before it was interrupted.
bool may_come_before(Op op) {
    return (leaves_something(op) || works(op)) && rule_of(op).carry != Carry::refused && !ends_much(op) &&
           op != Op::release &&  // what was granted is not the worker's to know
           // The software GPU reserves where the process has nothing; a test's process, unlike a worker, has something
           // else there than the one before. And what is not mapped is refused.
           op != Op::cuMemAddressReserve && op != Op::cuMemCreate;
}
// And what it does afterwards, with the same answers in both workers. What new memory and new textures are named by is
// the driver's business, and the copy does not know what was there once.
bool may_come_behind(Op op) {
    switch (op) {
        case Op::cuMemAlloc_v2:
        case Op::cuMemAllocPitch_v2:
        case Op::cuMemAddressReserve:
        case Op::cuTexObjectCreate:
        case Op::cuSurfObjectCreate: return false;
        default: return may_come_before(op);
    }
}

class BirthsOfPrograms : public testing::TestWithParam<unsigned> {
  protected:
    static constexpr unsigned commands = 60, every = 6, behind = 40;

    static void run(const Journey& journey, unsigned seed, unsigned before, bool& carried) {
        static const std::vector<Op> first = rows_that(may_come_before), later = rows_that(may_come_behind);
        const auto client = client_of(journey.region, false);
        Program program(*client, seed);
        for (unsigned i = 0; i < before; ++i) program.send_one_of(first);
        program.settle();
        const Hindrance hindrance = journey.parts.write(*client);
        carried = hindrance.what.empty();
        if (!carried) {
            EXPECT_NE(hindrance.cure, "") << hindrance.what;
            return;
        }
        journey.copy_region();
        program.take_sent();
        program.send_each(questions);
        for (unsigned i = 0; i < behind; ++i) program.send_one_of(later);
        program.end_captures();
        program.send_each(questions);
        journey.log.write(program.take_sent());
        journey.end_here.write(*client);
    }
};

TEST_P(BirthsOfPrograms, GoOnBehindEachOfTheirCommandsAsIfNothingHadBeen) {
    auto* const carried =
        static_cast<bool*>(mmap(nullptr, sizeof(bool), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    unsigned times = 0;
    for (unsigned before = every; before <= commands && !HasFailure(); before += every) {
        SCOPED_TRACE(testing::Message() << "behind " << before << " commands");
        const Journey journey{};
        in_a_process([&] { run(journey, GetParam(), before, *carried); });
        if (!*carried) continue;
        ++times;
        in_a_process([&] { go_on(journey, false); });
        expect_equal_ends(journey);
    }
    munmap(carried, sizeof(bool));
    EXPECT_GE(times, 3u) << "nearly all were refused";
}
INSTANTIATE_TEST_SUITE_P(Random, BirthsOfPrograms, testing::Range(1u, sanitized ? 3u : 9u));

}  // namespace
}  // namespace barcuda
