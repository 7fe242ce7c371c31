// SPDX-License-Identifier: Apache-2.0
// module.cc: turns PTX text into a program ready to run. Functions that contain something unsupported are kept with
// their refusal: only a launch that reaches one fails.
#include "soft-gpu/ptx/module.h"

#include <sys/mman.h>

#include <algorithm>

#include "soft-gpu/ptx/native.h"
#include "soft-gpu/ptx/parser.h"

namespace barcuda::soft {

static std::size_t align_up(std::size_t value, std::size_t align) { return (value + align - 1) / align * align; }

// Every name that an operand mentions: functions, variables, labels.
template <class F> static void for_each_name(const ast::Operand& o, F&& f) {
    if (o.kind == ast::Operand::name) f(o.name_text);
    for (const auto& item : o.items) for_each_name(item, f);
}

std::unique_ptr<Program> Program::load(std::string_view ptx, const Limits& limits, AddressSpace& space,
                                       const Program* shared) {
    return std::make_unique<Code>(ptx, limits, space, shared);
}

Code::Code(std::string_view ptx, const Limits& l, AddressSpace& s, const Program* shared)
    : text(ptx), limits(l), space(s), heap(s, l.malloc_heap_bytes), ast_(parse(text)) {
    if (ast_.target > limits.compute_capability)
        throw Error{CUDA_ERROR_NO_BINARY_FOR_GPU,
                    "ptx target sm_" + std::to_string(ast_.target) + " is newer than this device's compute capability"};
    for (const auto& f : ast_.functions) {
        if (!f.defined) continue;
        auto& out = functions.emplace_back();
        out.name = f.name;
        out.entry = f.entry;
        out.index = static_cast<unsigned>(functions.size() - 1);
        const auto address = reinterpret_cast<std::uint64_t>(&out);
        addresses_.insert(address);
        symbols_[out.name] = {Symbol::code, address, &out};
        written_of_[&out] = &f;
    }
    for (const auto& [alias, target] : ast_.aliases) {
        const auto found = symbols_.find(target);
        if (found != symbols_.end()) symbols_[std::string(alias)] = found->second;
    }
    allocate(global_, Space::global, shared);
    allocate(constant_, Space::constant, nullptr);
    for (const auto& v : ast_.variables) {
        if (v.space == Space::texture) symbols_[std::string(v.name)] = {Symbol::texture, 0, nullptr};
    }
    lay_out_shared();
    for (const auto& v : ast_.variables) initialize(v);
    prepare();
    if (global_.base != nullptr) space.add({reinterpret_cast<std::uintptr_t>(global_.base), global_.size, true});
    if (constant_.base != nullptr) space.add({reinterpret_cast<std::uintptr_t>(constant_.base), constant_.size, false});
}

Code::~Code() {
    forget_native(*this);
    for (const Memory& memory : {global_, constant_}) {
        if (memory.base == nullptr) continue;
        space.remove(reinterpret_cast<std::uintptr_t>(memory.base));
        munmap(memory.base, memory.size);
    }
}

// ---- globals --------------------------------------------------------------------------------------------------------

namespace {

// Variables lie where their code has them in every process: a program may go on in another one, and its memory is full
// of addresses. Behind what the system maps by itself, and below the window of device memory (driver.h).
constexpr std::uintptr_t variables_begin = 0x2d0000000000, variables_unit = 1 << 20, variables_places = 1 << 20;

std::uintptr_t place_of_variables(const ast::Module& ast, Space which) {
    std::uint64_t hash = which == Space::constant ? 2 : 1;
    const auto add = [&](std::string_view name) {
        for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
        hash = (hash ^ name.size()) * 0x100000001b3;
    };
    for (const auto& v : ast.variables) add(v.name);
    for (const auto& f : ast.functions) add(f.name);
    return variables_begin + (hash >> 20) % variables_places * variables_unit;
}

// The same code may be loaded more than once.
void* map_variables(std::uintptr_t place, std::size_t bytes) {
    constexpr int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    for (unsigned copies = 0; copies < 64; ++copies, place += variables_unit) {
        void* const at =
            mmap(reinterpret_cast<void*>(place), bytes, PROT_READ | PROT_WRITE, flags | MAP_FIXED_NOREPLACE, -1, 0);
        if (at != MAP_FAILED) return at;
    }
    return mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
}

}  // namespace

void Code::allocate(Memory& memory, Space which, const Program* shared) {
    if (shared)
        for (const GlobalInfo& there : shared->globals())
            for (const auto& v : ast_.variables) {
                if (!there.managed || v.name != there.name) continue;
                elsewhere_.insert(v.name);
                symbols_[there.name] = {Symbol::address, there.address, nullptr};
                globals_.push_back(there);
            }
    const auto own = [&](const auto& v) { return v.space == which && !v.external && !elsewhere_.contains(v.name); };
    std::size_t total = 0;
    std::vector<std::size_t> offsets;
    for (const auto& v : ast_.variables) {
        if (!own(v)) continue;
        total = align_up(total, std::max<std::size_t>(v.align, 16));
        offsets.push_back(total);
        total += v.bytes;
    }
    if (total == 0) total = offsets.empty() ? 0 : 1;
    if (total == 0) return;
    void* const at = map_variables(place_of_variables(ast_, which), total);
    if (at == MAP_FAILED)
        throw Error{CUDA_ERROR_OUT_OF_MEMORY, "no memory for " + std::to_string(total) + " bytes of module variables"};
    memory = {static_cast<std::byte*>(at), total};
    auto offset = offsets.begin();
    for (const auto& v : ast_.variables) {
        if (!own(v)) continue;
        const auto address = reinterpret_cast<std::uintptr_t>(memory.base + *offset++);
        symbols_[std::string(v.name)] = {Symbol::address, address, nullptr};
        globals_.push_back(
            {std::string(v.name), address, v.bytes, which == Space::constant, v.managed, v.type == Type::ref});
    }
}

void Code::restart() {
    for (const auto& v : ast_.variables) {
        const auto symbol = symbols_.find(v.name);
        const bool own = (v.space == Space::global || v.space == Space::constant) && !v.external && !v.managed;
        if (!own || symbol == symbols_.end()) continue;
        std::memset(reinterpret_cast<void*>(symbol->second.value), 0, v.bytes);
        initialize(v);
    }
}

std::uint64_t Code::value_of(const ast::Initializer& init, int line) const {
    if (init.symbol.empty()) return init.bits;
    const auto found = symbols_.find(init.symbol);
    if (found == symbols_.end() || found->second.kind == Symbol::texture)
        throw refused(line, "an initializer with the address of '" + std::string(init.symbol) + "'");
    const auto value = found->second.value + init.bits;
    return init.mask_shift < 64 ? value >> init.mask_shift & 0xFF : value;
}

void Code::initialize(const ast::Variable& v) {
    if (v.values.empty() || (v.space != Space::global && v.space != Space::constant) || elsewhere_.contains(v.name))
        return;
    const auto symbol = symbols_.find(v.name);
    if (symbol == symbols_.end()) return;
    auto* at = reinterpret_cast<std::byte*>(symbol->second.value);
    const unsigned bytes = bytes_of(v.type);
    for (const auto& init : v.values) {
        auto value = value_of(init, v.line);
        if (v.type == Type::f32 && init.symbol.empty() && value > 0xFFFFFFFF)  // written as a decimal
            value = __builtin_bit_cast(std::uint32_t, static_cast<float>(__builtin_bit_cast(double, value)));
        std::memcpy(at, &value, std::min(bytes, 8u));
        at += bytes;
    }
}

// ---- shared memory --------------------------------------------------------------------------------------------------

// Module-level variables, and those of device functions, have the same place in every kernel; a kernel's own variables
// follow those that it reaches.
void Code::lay_out_shared() {
    std::size_t common = 0;
    std::map<std::string_view, std::size_t> ends;
    const auto place = [&](const ast::Variable& v, std::size_t& total) {
        total = align_up(total, std::max<std::size_t>(v.align, 1));
        const auto at = total;
        total += v.bytes;
        if (total > Window::shared_size) throw refused(v.line, "shared memory of that size");
        return at;
    };
    for (const auto& v : ast_.variables) {
        if (v.space != Space::shared) continue;
        if (v.open || (v.external && v.bytes == 0)) {
            symbols_[std::string(v.name)] = {Symbol::dynamic_shared, 0, nullptr};
        } else {
            symbols_[std::string(v.name)] = {Symbol::shared, place(v, common), nullptr};
            ends[v.name] = common;
        }
    }
    std::map<const ast::Function*, std::size_t> own;
    for (const auto& f : ast_.functions) {
        if (f.entry) continue;
        for (const auto& v : f.variables)
            if (v.space == Space::shared) {
                shared_of_[{&f, v.name}] = place(v, common);
                own[&f] = common;
            }
    }
    for (const auto& f : functions) {
        if (!f.entry) continue;
        std::size_t total = 0;
        for (const Function* reached : reach(f)) {
            const auto* written = written_of_.at(reached);
            if (own.contains(written)) total = std::max(total, own[written]);
            for (const auto& in : written->body)
                for (const auto& o : in.operands)
                    for_each_name(o, [&](std::string_view name) {
                        if (const auto end = ends.find(name); end != ends.end()) total = std::max(total, end->second);
                    });
        }
        const auto* written = written_of_.at(&f);
        for (const auto& v : written->variables)
            if (v.space == Space::shared) shared_of_[{written, v.name}] = place(v, total);
        static_shared_[written] = total;
    }
}

// The functions that a launch of `from` may run.
std::set<const Function*> Code::reach(const Function& from) const {
    std::set<const Function*> seen{&from};
    std::vector<const Function*> open{&from};
    bool indirect = false;
    const auto visit = [&](std::string_view name) {
        const auto found = symbols_.find(name);
        if (found != symbols_.end() && found->second.function != nullptr && seen.insert(found->second.function).second)
            open.push_back(found->second.function);
    };
    while (!open.empty()) {
        const auto* written = written_of_.at(open.back());
        open.pop_back();
        for (const auto& in : written->body) {
            for (const auto& o : in.operands) for_each_name(o, visit);
            if (in.name == "call" && !indirect)
                indirect = std::any_of(in.operands.begin(), in.operands.end(),
                                       [](const auto& o) { return o.kind == ast::Operand::reg; });
        }
        if (!indirect) continue;
        for (const auto& v : ast_.variables)  // tables of functions
            for (const auto& init : v.values)
                if (!init.symbol.empty()) visit(init.symbol);
    }
    return seen;
}

// ---- functions ------------------------------------------------------------------------------------------------------

void Code::prepare() {
    for (auto& out : functions) {
        out.native = std::make_shared<Native>();
        out.native->code = this;
        preparing_ = written_of_.at(&out);
        try {
            if (!preparing_->refused.empty())
                throw refused(preparing_->line, "'." + std::string(preparing_->refused) + "'");
            Coder(*preparing_, out, *this).function();
        } catch (const Error& error) {
            if (error.code == CUDA_ERROR_INVALID_PTX) throw;
            out.code.clear();
            out.refusal = error.message;
            out.refusal_code = error.code;
        }
    }
    preparing_ = nullptr;
    for (auto& f : functions)
        if (f.entry) describe(*written_of_.at(&f), f);
}

// Bytes of stack from `f` down; 0 if a cycle makes it unknown.
static std::size_t stack_of(const Function& f, std::set<const Function*>& path) {
    if (f.calls_indirectly || !path.insert(&f).second) return 0;
    std::size_t deepest = 0;
    for (const Function* callee : f.callees) {
        const auto below = stack_of(*callee, path);
        if (below == 0) return 0;
        deepest = std::max(deepest, below);
    }
    path.erase(&f);
    return f.stack_bytes + deepest + 16;
}

void Code::describe(const ast::Function& written, const Function& f) {
    KernelInfo info;
    info.name = f.name;
    for (const auto& p : f.parameters) info.parameters.push_back({p.at, p.bytes});
    if (!f.parameters.empty()) info.parameter_bytes = f.parameters.back().at + f.parameters.back().bytes;
    info.static_shared_bytes = static_shared_[&written];
    info.const_bytes = constant_.size;
    std::set<const Function*> path;
    const auto stack = stack_of(f, path);
    auto& own = functions[f.index];
    own.stack_limit = static_cast<std::uint32_t>(stack != 0 ? stack : limits.stack_bytes + f.stack_bytes);
    info.local_bytes = stack > 16 ? stack - 16 : f.stack_bytes;
    const auto product = [](const int* n) { return n[0] * n[1] * n[2]; };
    if (product(written.required_threads) > 0) {
        info.max_threads_per_block = product(written.required_threads);
        std::copy_n(written.required_threads, 3, info.required_block);
    } else if (product(written.max_threads) > 0) {
        info.max_threads_per_block = product(written.max_threads);
    }
    info.max_threads_per_block = std::min(info.max_threads_per_block, 1024);
    info.registers = std::clamp(static_cast<int>(f.register_bytes / (4 * lane_count)), 16,
                                65536 / std::max(info.max_threads_per_block, 258));
    for (const Function* reached : reach(f)) {
        for (const auto& in : written_of_.at(reached)->body)
            for (const auto& o : in.operands)
                info.uses_grid_sync |= o.kind == ast::Operand::special && o.name_text == "envreg2";
        if (!own.refusal.empty() || reached->refusal.empty()) continue;
        own.refusal = reached->refusal;
        own.refusal_code = reached->refusal_code;
    }
    entries_.emplace(f.name, Entry{&f, info, static_shared_[&written]});
}

std::vector<std::string> Code::kernel_names() const {
    std::vector<std::string> names;
    for (const auto& f : functions)
        if (f.entry) names.push_back(f.name);
    return names;
}

const KernelInfo* Code::kernel(std::string_view name) const {
    const auto found = entries_.find(name);
    return found == entries_.end() ? nullptr : &found->second.info;
}

const Function* Code::entry(std::string_view name) const {
    const auto found = entries_.find(name);
    return found == entries_.end() ? nullptr : found->second.function;
}

// ---- names ----------------------------------------------------------------------------------------------------------

Symbol Code::find(std::string_view name) const {
    if (const auto own = shared_of_.find({preparing_, name}); own != shared_of_.end())
        return {Symbol::shared, own->second, nullptr};
    const auto found = symbols_.find(name);
    return found == symbols_.end() ? Symbol{} : found->second;
}

const ast::Function* Code::written(std::string_view name) const {
    if (const auto alias = ast_.aliases.find(name); alias != ast_.aliases.end()) name = alias->second;
    const auto found = ast_.function_named.find(name);
    return found == ast_.function_named.end() ? nullptr : found->second;
}

Slot Code::special(std::string_view name, unsigned bytes) {
    static const auto& known = *new std::map<std::string_view, std::pair<Special::Kind, unsigned>>{
        {"tid.x", {Special::tid_x, 4}},
        {"tid.y", {Special::tid_y, 4}},
        {"tid.z", {Special::tid_z, 4}},
        {"ntid.x", {Special::ntid_x, 4}},
        {"ntid.y", {Special::ntid_y, 4}},
        {"ntid.z", {Special::ntid_z, 4}},
        {"ctaid.x", {Special::ctaid_x, 4}},
        {"ctaid.y", {Special::ctaid_y, 4}},
        {"ctaid.z", {Special::ctaid_z, 4}},
        {"nctaid.x", {Special::nctaid_x, 4}},
        {"nctaid.y", {Special::nctaid_y, 4}},
        {"nctaid.z", {Special::nctaid_z, 4}},
        {"laneid", {Special::laneid, 4}},
        {"warpid", {Special::warpid, 4}},
        {"nwarpid", {Special::nwarpid, 4}},
        {"smid", {Special::smid, 4}},
        {"nsmid", {Special::nsmid, 4}},
        {"gridid", {Special::gridid, 8}},
        {"lanemask_eq", {Special::lanemask_eq, 4}},
        {"lanemask_lt", {Special::lanemask_lt, 4}},
        {"lanemask_le", {Special::lanemask_le, 4}},
        {"lanemask_gt", {Special::lanemask_gt, 4}},
        {"lanemask_ge", {Special::lanemask_ge, 4}},
        {"dynamic_smem_size", {Special::dynamic_smem_size, 4}},
        {"total_smem_size", {Special::total_smem_size, 4}},
        {"aggr_smem_size", {Special::total_smem_size, 4}},
        {"envreg1", {Special::envreg1, 4}},
        {"envreg2", {Special::envreg2, 4}},
        {"reserved_smem_offset_begin", {Special::reserved_begin, 4}},
        {"reserved_smem_offset_end", {Special::reserved_end, 4}},
        {"reserved_smem_offset_cap", {Special::reserved_size, 4}},
        {"reserved_smem_offset_0", {Special::reserved_0, 4}},
        {"reserved_smem_offset_1", {Special::reserved_1, 4}},
        // A grid without clusters is a grid of clusters of one block.
        {"clusterid.x", {Special::ctaid_x, 4}},
        {"clusterid.y", {Special::ctaid_y, 4}},
        {"clusterid.z", {Special::ctaid_z, 4}},
        {"nclusterid.x", {Special::nctaid_x, 4}},
        {"nclusterid.y", {Special::nctaid_y, 4}},
        {"nclusterid.z", {Special::nctaid_z, 4}},
        {"cluster_ctaid.x", {Special::zero, 4}},
        {"cluster_ctaid.y", {Special::zero, 4}},
        {"cluster_ctaid.z", {Special::zero, 4}},
        {"cluster_nctaid.x", {Special::one, 4}},
        {"cluster_nctaid.y", {Special::one, 4}},
        {"cluster_nctaid.z", {Special::one, 4}},
        {"cluster_ctarank", {Special::zero, 4}},
        {"cluster_nctarank", {Special::one, 4}},
        {"parameters", {Special::parameters, 8}},
        {"dynamic_shared", {Special::dynamic_shared, 8}},
    };
    const auto found = known.find(name);
    if (found == known.end() || bytes > 8) return nowhere;
    const auto [kind, natural] = found->second;
    uses_reserved_shared |= kind >= Special::reserved_begin && kind <= Special::reserved_1;
    if (natural == 8 && bytes != 8) return nowhere;
    for (const auto& s : specials)
        if (s.kind == kind && s.bytes == bytes) return s.slot;
    const Slot slot = special_bytes | specials_bank;
    special_bytes += static_cast<std::uint32_t>(align_up(std::size_t{std::max(bytes, 2u)} * lane_count, 64));
    specials.push_back({kind, bytes, slot});
    return slot;
}

}  // namespace barcuda::soft
