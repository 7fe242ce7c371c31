// SPDX-License-Identifier: Apache-2.0
// generator.h: requests of every row of the command table, made from its kinds: each parameter by what its kind says it
// is (makers.h), packed by the kind itself, as the guest library would. honest.h has what the kinds do not say: which
// numbers a function likes. Lies are told afterwards, of the packed bytes.
#pragma once
#include <cstring>
#include <optional>
#include <vector>

#include "shm-device/queue/wire.h"
#include "tests/hostile/known.h"
#include "tests/hostile/stage.h"

namespace barcuda::hostile {

// A command that is under way: its arguments live until its reply has come.
struct Pending {
    Op op{};
    bool answered = false, lie = false;
    std::size_t request_bytes = 0, reply_bytes = 0;
    std::size_t used = 0;  // of memory
    alignas(128) std::byte memory[24 << 10];
    void* take(std::size_t bytes) {
        const std::size_t at = (used + 127) & ~std::size_t{127};              // as a tensor map lies
        if (at + bytes > sizeof memory) return memory + (sizeof memory / 2);  // (no row needs as much)
        used = at + bytes;
        return std::memset(memory + at, 0, bytes);
    }
};

class Generator;
struct RowEntry {
    How how;
    const MathLibrary* library;
    // Writes a request without its head; false: it did not fit.
    bool (*build)(Generator&, Pending&, Writer&);
    void (*learn)(Generator&, Pending&, Reader&, bool success);
    std::vector<Tag> (*makes)();
    std::vector<Tag> (*drops)();
};
const RowEntry& row(Op op);

class Generator {
  public:
    Generator(Stage& stage, Known& known, Random& random) : stage(stage), known(known), random(random) {}

    Stage& stage;
    Known& known;
    Random& random;

    // What the client begins with: an extent, with images, addresses and room in it. False: none is available.
    bool begin();
    Op next_op();
    // The row that the commands so far have lacked, if there is one: the last one that was wanted.
    std::optional<Op> next_wanted();
    // Writes a command into the stage's request memory.
    void build(Op op, Pending& pending, double lies);
    void learn(Pending& pending, CUresult result, std::span<const std::byte> reply);

    // ---- the kinds' guest (shm-device/kinds/kinds.h)
    std::uint64_t new_id() { return next_id_++; }
    void free_id(std::uint64_t id) { known.remove(id); }
    bool knows(std::uint64_t) const { return true; }
    std::uint64_t offset_of(const void* p) const { return stage.offset_of(p); }
    std::uint64_t on_device(std::uint64_t address, std::size_t) const { return address; }

    // ---- what arguments are drawn from
    void want(Op op) {
        if (wanted_.size() < 64) wanted_.push_back(op);
    }
    void want_maker(Tag type);
    void want_dropper(Tag type);
    // An object of this type; with `whole`, a part of that; with `by`, made by that row.
    std::uint64_t object(Tag type, std::uint64_t whole = 0, Op by = Op::count);
    // Memory that the GPU reaches.
    std::uint64_t address(std::uint64_t bytes);
    Memory memory(Sort sort, Op maker);
    void keep(Sort sort, std::uint64_t address, std::uint64_t bytes, std::uint64_t whole = 0);
    std::byte* heap(std::uint64_t bytes);  // in the extent
    std::uint64_t table_of_addresses();    // of matrices, in memory of the GPU's
    std::span<const std::byte> image() const { return {extent_.data(), image_bytes_}; }
    const char* name(bool variable);  // that the image has
    std::uint64_t words(std::uint64_t most) { return random.chance(90) ? random.between(1, most) : random.below(2); }
    ext::Fence fence();
    std::span<std::byte> spare_extent();
    std::uint64_t graph = 0;  // of the command that is being made

  private:
    void lie(std::span<std::byte> request, Pending& pending);
    std::uint64_t wrong_word(std::uint64_t word);

    std::uint64_t next_id_ = wire::first_id;
    std::vector<Op> wanted_;
    std::span<std::byte> extent_;
    std::size_t image_bytes_ = 0;
    std::uint64_t fence_ = 0;
};

}  // namespace barcuda::hostile
