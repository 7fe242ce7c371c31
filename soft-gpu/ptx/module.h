// SPDX-License-Identifier: Apache-2.0
// module.h: a loaded program: its functions prepared, its globals allocated and initialized, its shared memory laid
// out.
#pragma once
#include <deque>
#include <set>
#include <unordered_set>

#include "soft-gpu/ptx/coder.h"
#include "soft-gpu/ptx/heap.h"

namespace barcuda::soft {

// Shared memory that the system reserves for cooperative groups, after a block's own; it exists only if the program
// uses its address.
inline constexpr std::size_t reserved_shared_bytes = 1024;

// A special register that some instruction of the program reads: a column of every warp's specials bank.
struct Special {
    enum Kind : std::uint8_t {
        tid_x,
        tid_y,
        tid_z,
        ntid_x,
        ntid_y,
        ntid_z,
        ctaid_x,
        ctaid_y,
        ctaid_z,
        nctaid_x,
        nctaid_y,
        nctaid_z,
        laneid,
        warpid,
        nwarpid,
        smid,
        nsmid,
        gridid,
        lanemask_eq,
        lanemask_lt,
        lanemask_le,
        lanemask_gt,
        lanemask_ge,
        dynamic_smem_size,
        total_smem_size,
        envreg1,
        envreg2,
        reserved_begin,
        reserved_end,
        reserved_size,
        reserved_0,
        reserved_1,
        zero,
        one,
        parameters,
        dynamic_shared,
    } kind;
    unsigned bytes;
    Slot slot;
};

struct Code final : Program, Symbols {
    Code(std::string_view ptx, const Limits& limits, AddressSpace& space, const Program* shared);
    ~Code() override;

    std::vector<std::string> kernel_names() const override;
    const KernelInfo* kernel(std::string_view name) const override;
    std::vector<GlobalInfo> globals() const override { return globals_; }
    void restart() override;
    int target() const override { return ast_.target; }

    Symbol find(std::string_view name) const override;
    Slot special(std::string_view name, unsigned bytes) override;
    const ast::Function* written(std::string_view name) const override;
    AddressSpace::Range constants() const override {
        return {reinterpret_cast<std::uintptr_t>(constant_.base), constant_.size, false};
    }

    const Function* entry(std::string_view name) const;
    bool uses_reserved_shared = false;
    bool is_function(std::uint64_t address) const { return addresses_.contains(address); }

    struct Entry {
        const Function* function;
        KernelInfo info;
        std::size_t shared_bytes;
    };
    std::string text;
    Limits limits;
    AddressSpace& space;
    std::deque<Function> functions;
    std::vector<Special> specials;
    std::uint32_t special_bytes = 0;
    mutable Heap heap;                            // of malloc in kernels
    mutable std::atomic<std::uint32_t> sites{0};  // of compiled loads and stores: Block::sites

  private:
    struct Memory {
        std::byte* base = nullptr;
        std::size_t size = 0;
    };
    void allocate(Memory& memory, Space which, const Program* shared);
    void initialize(const ast::Variable& v);
    std::uint64_t value_of(const ast::Initializer& init, int line) const;
    void lay_out_shared();
    void prepare();
    void describe(const ast::Function& written, const Function& f);
    std::set<const Function*> reach(const Function& from) const;

    ast::Module ast_;
    Memory global_, constant_;
    std::set<std::string_view> elsewhere_;  // variables that another program holds
    std::vector<GlobalInfo> globals_;
    std::map<std::string, Symbol, std::less<>> symbols_;
    std::map<std::string, Entry, std::less<>> entries_;
    std::map<const Function*, std::size_t>
        shared_end_;  // by function: the end of the module-level shared variables that it names
    std::map<const Function*, const ast::Function*> written_of_;
    std::unordered_set<std::uint64_t> addresses_;  // of functions
    const ast::Function* preparing_ = nullptr;
    std::map<std::pair<const ast::Function*, std::string_view>, std::uint64_t> shared_of_;  // demoted shared variables
    std::map<const ast::Function*, std::size_t> static_shared_;
};

}  // namespace barcuda::soft
