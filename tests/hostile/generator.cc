// SPDX-License-Identifier: Apache-2.0
#include "tests/hostile/generator.h"

#include <map>

namespace barcuda::hostile {
namespace {

// What is loaded, linked and launched: both kernels store a number where they are told.
constexpr std::string_view ptx = R"(.version 7.0
.target sm_75
.address_size 64
.visible .global .align 4 .u32 counter = 5;
.visible .entry store(.param .u64 to, .param .u32 value)
{
    .reg .b32 %r<3>;
    .reg .b64 %rd<5>;
    ld.param.u64 %rd1, [to];
    ld.param.u32 %r1, [value];
    mov.u32 %r2, %tid.x;
    cvta.to.global.u64 %rd2, %rd1;
    mul.wide.u32 %rd3, %r2, 4;
    add.s64 %rd4, %rd2, %rd3;
    st.global.u32 [%rd4], %r1;
    ret;
}
.visible .entry bump(.param .u64 to, .param .u32 value)
{
    .reg .b32 %r<3>;
    .reg .b64 %rd<3>;
    ld.param.u64 %rd1, [to];
    ld.param.u32 %r1, [value];
    cvta.to.global.u64 %rd2, %rd1;
    atom.global.add.u32 %r2, [%rd2], %r1;
    ret;
}
)";

// The extent: the image, a table of addresses, the matrices that it names, and the heap.
constexpr std::uint64_t table_at = 64 << 10, matrices_at = 1 << 20, heap_at = 2 << 20;
constexpr std::size_t table_entries = 64, matrix_bytes = 4096, many = 24;

struct Rows {
    std::map<Tag, std::vector<Op>> makers, droppers;
    std::vector<Op> all;
    Rows() {
        for (std::uint32_t i = 0; i < static_cast<std::uint32_t>(Op::count); ++i) {
            const auto op = static_cast<Op>(i);
            if (row(op).how == How::guest) continue;
            all.push_back(op);
            for (Tag type : row(op).makes()) makers[type].push_back(op);
            for (Tag type : row(op).drops()) droppers[type].push_back(op);
        }
    }
};
const Rows& rows() {
    static const Rows rows;
    return rows;
}
// What ends much of what there is: not as often as other rows.
bool ends_much(Op op) { return op == Op::cuDevicePrimaryCtxReset_v2 || op == Op::cuCtxDestroy_v2; }

}  // namespace

bool Generator::begin() {
    extent_ = stage.extent(wire::first_extent);
    if (extent_.empty()) return false;
    image_bytes_ = ptx.size() + 1;
    std::memcpy(extent_.data(), ptx.data(), image_bytes_);
    const auto base = reinterpret_cast<std::uint64_t>(extent_.data());
    for (std::uint64_t i = 0; i < table_entries; ++i) {
        const std::uint64_t address = base + matrices_at + i * matrix_bytes;
        std::memcpy(extent_.data() + table_at + i * 8, &address, 8);
    }
    return true;
}

Op Generator::next_op() {
    if (known.of(tag<CUcontext>()).empty()) return Op::cuDevicePrimaryCtxRetain;
    if (!wanted_.empty() && random.chance(70)) return *next_wanted();
    for (;;)
        if (const Op op = random.pick(rows().all); !ends_much(op) || random.chance(10)) return op;
}

std::optional<Op> Generator::next_wanted() {
    if (wanted_.empty()) return {};
    const Op op = wanted_.back();
    wanted_.pop_back();
    return op;
}

void Generator::want_maker(Tag type) {
    if (const auto at = rows().makers.find(type); at != rows().makers.end()) want(random.pick(at->second));
}
void Generator::want_dropper(Tag type) {
    const auto at = rows().droppers.find(type);
    if (at == rows().droppers.end()) return;
    if (const Op op = random.pick(at->second); !ends_much(op)) want(op);
}

std::uint64_t Generator::object(Tag type, std::uint64_t whole, Op by) {
    auto& all = known.of(type);
    if (all.size() > many) want_dropper(type);
    std::vector<std::uint64_t> fit;
    for (const Thing& t : all)
        if ((whole == 0 || t.whole == whole) && (by == Op::count || t.made_by == by)) fit.push_back(t.id);
    if (!fit.empty()) return random.pick(fit);
    if (by != Op::count) want(by);
    else want_maker(type);
    return all.empty() ? random.below(64) : random.pick(all).id;
}

std::uint64_t Generator::address(std::uint64_t bytes) {
    const Sort sort = random.one_of({Sort::allocated, Sort::allocated, Sort::queued, Sort::accessible, Sort::count});
    if (sort != Sort::count) {
        auto& all = known.memory(sort);
        if (all.empty() && sort == Sort::allocated) want(Op::cuMemAlloc_v2);
        if (!all.empty())
            if (const Memory& m = random.pick(all); m.bytes >= bytes)
                return m.address + (random.below(m.bytes - bytes + 1) & ~std::uint64_t{15});
    }
    return reinterpret_cast<std::uint64_t>(heap(bytes));
}

Memory Generator::memory(Sort sort, Op maker) {
    auto& all = known.memory(sort);
    if (all.empty()) {
        want(maker);
        return Memory{address(64), 64};
    }
    return random.pick(all);
}

void Generator::keep(Sort sort, std::uint64_t address, std::uint64_t bytes, std::uint64_t whole) {
    if (address) known.memory(sort).push_back({address, bytes, whole});
}

std::byte* Generator::heap(std::uint64_t bytes) {
    const std::uint64_t room = extent_.size() - heap_at;
    if (bytes > room) return extent_.data() + heap_at;
    return extent_.data() + heap_at + (random.below(room - bytes + 1) & ~std::uint64_t{63});
}

std::uint64_t Generator::table_of_addresses() {
    return reinterpret_cast<std::uint64_t>(extent_.data() + table_at + 8 * random.below(table_entries / 2));
}

const char* Generator::name(bool variable) {
    if (variable) return "counter";
    return random.one_of({"store", "bump"});
}

// A word of an extent or of the channel's fences, and more than it was ever asked for.
ext::Fence Generator::fence() {
    const std::uint64_t word = 8 * random.below(BARCUDA_FENCES);
    if (random.below(2)) return {stage.channel_offset() + BARCUDA_FENCES_OFFSET + word, ++fence_};
    return {offset_of(heap(8 * BARCUDA_FENCES) + word), ++fence_};
}

std::span<std::byte> Generator::spare_extent() { return stage.extent(BARCUDA_GRANULE); }

// ---- lies ----------------------------------------------------------------------------------------------------------

std::uint64_t Generator::wrong_word(std::uint64_t word) {
    const auto base = reinterpret_cast<std::uint64_t>(extent_.data());
    switch (random.below(12)) {
        case 0: return 0;
        case 1: return ~std::uint64_t{0};
        case 2: return std::uint64_t{1} << random.below(64);
        case 3: return ~(std::uint64_t{1} << random.below(64));
        case 4: return word + random.between(1, 64);
        case 5: return word - random.between(1, 64);
        case 6: return word ^ std::uint64_t{1} << random.below(64);
        case 7: return address(1) + random.below(1 << 20);
        case 8: return random.chance(50) ? base + extent_.size() - random.below(4096) : base - random.below(1 << 21);
        case 9: return reinterpret_cast<std::uint64_t>(this) & ~std::uint64_t{0xfff};  // of a process
        case 10: {                                                                     // another client's object
            const auto& all = known.everything();
            auto at = all.begin();
            std::advance(at, static_cast<long>(random.below(all.size())));
            return at == all.end() || at->second.empty() ? random.below(1 << 23) : at->second.front().id;
        }
        default: return random.word();
    }
}

// Words of the body mostly; sometimes the head, the length, or the room for the reply.
void Generator::lie(std::span<std::byte> request, Pending& p) {
    const std::size_t words = request.size() / 8;
    for (std::uint64_t n = random.between(1, 2); n > 0; --n) switch (random.below(20)) {
            case 0: p.request_bytes -= std::min(p.request_bytes, 8 * random.between(1, 2)); break;
            case 1: p.request_bytes += 8; break;
            case 2: p.reply_bytes = random.below(p.reply_bytes + 8); break;
            case 3:
            case 4: request[random.below(8)] = static_cast<std::byte>(random.word()); break;
            default:
                if (words < 2) break;
                std::byte* at = request.data() + 8 * random.between(1, words - 1);
                std::uint64_t word;
                std::memcpy(&word, at, 8);
                word = wrong_word(word);
                std::memcpy(at, &word, random.chance(80) ? 8 : random.between(1, 4));
        }
}

void Generator::build(Op op, Pending& p, double lies) {
    p.op = op;
    p.used = 0;
    p.lie = random.chance(lies);
    graph = 0;
    const std::span<std::byte> memory = stage.request_memory();
    auto& contexts = known.of(tag<CUcontext>());
    const std::uint64_t context = contexts.empty()    ? 0
                                  : random.chance(95) ? contexts.front().id
                                                      : random.pick(contexts).id;
    Writer w(memory);
    w.put(RequestHead{stage.number_of(op), static_cast<std::uint32_t>(context)});
    row(op).build(*this, p, w);
    p.request_bytes = w.used();
    p.answered = row(op).how == How::call || random.chance(70);
    if (p.lie) lie(memory.first(p.request_bytes), p);
    if (!p.answered) p.reply_bytes = 0;
}

void Generator::learn(Pending& p, CUresult result, std::span<const std::byte> reply) {
    Reader r(reply);
    row(p.op).learn(*this, p, r, result == CUDA_SUCCESS);
}

}  // namespace barcuda::hostile
