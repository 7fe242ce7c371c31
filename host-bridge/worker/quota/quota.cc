// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/worker/quota/quota.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "host-bridge/worker/quota/granter.h"

namespace barcuda {
namespace {

// A driver takes device memory in pieces of this size, and makes small allocations in them.
constexpr std::uint64_t unit = 2 << 20;
constexpr std::uint64_t spare = 32 << 20;  // borrowed memory that is kept for the next allocation
constexpr std::uint64_t whole(std::uint64_t bytes) { return (bytes + unit - 1) / unit * unit; }
constexpr std::uint64_t less(std::uint64_t a, std::uint64_t b) { return a - std::min(a, b); }

}  // namespace

// ---- bytes of a device

bool Quota::has(CUdevice device) {
    if (devices_ == 0 && real.cuDeviceGetCount(&devices_) != CUDA_SUCCESS) devices_ = 0;
    return device >= 0 && device < devices_;
}

bool Quota::take(CUdevice device, std::uint64_t bytes) {
    Books& b = books_[device];
    const std::uint64_t most = limit();
    if (most == 0) {
        limited_ = false;
        if (bytes > ~b.counted) return false;  // no driver has that much, and give() could not subtract it
        b.counted += bytes;
        return true;  // counted after the driver has answered: the allocation may fail
    }
    if (!limited_) begin_to_limit();
    if (bytes > less(most, b.used())) {
        measure(device, true);  // the driver may have less by now
        if (bytes > less(most, b.used())) return false;
    }
    if (!borrow(device, bytes)) return false;
    b.counted += bytes;
    note(device);
    return true;
}

// Makes sure that the bridge knows of what is used, and of `bytes` more.
bool Quota::borrow(CUdevice device, std::uint64_t bytes) {
    Books& b = books_[device];
    if (b.used() + bytes <= b.borrowed) return true;
    measure(device, false);
    const std::uint64_t more = less(b.used() + bytes, b.borrowed);
    std::uint64_t left = 0;
    if (more == 0) return true;
    if (granter_.borrow(device, whole(more), left)) {
        b.borrowed += whole(more);
        return true;
    }
    if (left < more || !granter_.borrow(device, more, left)) return false;  // the last piece
    b.borrowed += more;
    return true;
}

void Quota::give(CUdevice device, std::uint64_t bytes) {
    Books& b = books_[device];
    b.counted = less(b.counted, bytes);
    note(device);
    if (const std::uint64_t kept = whole(b.used()); b.borrowed > kept + spare) {
        granter_.repay(device, b.borrowed - kept);
        b.borrowed = kept;
    }
}

void Quota::note(CUdevice device) { allowance_.note_memory(device, books_[device].used()); }

// Counts what was not counted call by call while there was no limit.
void Quota::begin_to_limit() {
    limited_ = true;
    look();
    for (auto& [device, b] : books_) {  // tells the bridge what the client has; the bridge cannot refuse that
        std::uint64_t left = 0;
        const std::uint64_t more = less(b.used(), b.borrowed);
        if (more != 0 && granter_.borrow(device, more, left)) b.borrowed += more;
    }
}

void Quota::look() {
    const std::lock_guard lock(mutex);
    for (auto& [pool, its] : pools_) count(pool, its);
    count_graphs();
    if (limit() != 0) measure(current(), false);
}

void Quota::measure(CUdevice device, bool exact) {
    if (!own_) return;
    Books& b = books_[device];
    if (const auto own = own_(device, exact)) {
        recount(device);
        b.other = less(*own, b.counted);
    }
    note(device);
}

// Counts what the driver has taken or returned by itself since the last count: pools shrink after a wait.
void Quota::recount(CUdevice device) {
    Books& b = books_[device];
    const auto set = [&b](std::uint64_t& part, std::uint64_t now) {
        b.counted = less(b.counted, std::exchange(part, now)) + now;
    };
    for (auto& [pool, its] : pools_)
        if (its.device == device) set(its.reserved, attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT));
    if (graphs_allocate_) set(b.graphs, graph_attribute(device, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT));
}

bool Quota::admits_the_driver(CUdevice device) {
    const std::lock_guard lock(mutex);
    if (limit() == 0) return true;
    take(device, 0);  // so that the bridge knows
    measure(device, true);
    if (books_[device].used() > limit()) {
        trim(device);
        measure(device, true);
    }
    return books_[device].used() <= limit();
}

bool Quota::over() {
    const std::uint64_t most = limit();
    if (most == 0) return false;
    const std::lock_guard lock(mutex);
    if (!limited_) begin_to_limit();
    measure(current(), false);
    return std::ranges::any_of(books_, [&](const auto& b) { return b.second.used() > most; });
}

std::uint64_t Quota::left(CUdevice device) {
    take(device, 0);
    measure(device, false);
    const Books& b = books_[device];
    std::uint64_t left = 0;
    granter_.borrow(device, 0, left);
    const std::uint64_t lent = less(b.borrowed, b.used());
    return std::min(less(limit(), b.used()), left > ~lent ? ~std::uint64_t{0} : left + lent);
}

// A counted part now has this many bytes, whatever the limit is: the driver already has them.
void Quota::set_counted(CUdevice device, std::uint64_t& part, std::uint64_t now) {
    const std::uint64_t before = std::exchange(part, now);
    if (now <= before) return give(device, before - now);
    books_[device].counted += now - before;
    if (limit() != 0) borrow(device, 0);
    note(device);
}

// ---- memory with a name

void Quota::freed(std::uint64_t name) {
    if (!refund(name)) count_graphs();  // a graph's
}

void Quota::freed_in_stream(std::uint64_t name) { refund(name); }

bool Quota::refund(std::uint64_t name) {
    const auto t = things_.find(name);
    if (t == things_.end()) return false;
    if (--t->second.holds > 0) return true;
    give(t->second.device, t->second.bytes);
    things_.erase(t);
    return true;
}

bool Quota::opened(CUdeviceptr address) {
    if (const auto known = things_.find(address); known != things_.end()) {
        ++known->second.holds;
        return true;
    }
    const CUdevice device = current();
    CUdeviceptr begin = 0;
    std::size_t bytes = 0;
    if (real.cuMemGetAddressRange_v2(&begin, &bytes, address) != CUDA_SUCCESS) bytes = 0;  // it does not say
    if (!take_or_trim(device, bytes)) return false;
    CUcontext context = nullptr;
    real.cuCtxGetCurrent(&context);
    things_[address] = {device, bytes, context};
    note(device);
    return true;
}

void Quota::context_gone(CUcontext context) {
    std::erase_if(things_, [&](const auto& t) {
        if (t.second.context != context) return false;
        give(t.second.device, t.second.bytes);
        return true;
    });
}

// ---- pools

void Quota::forget_pool(CUmemoryPool pool) {
    if (const auto p = pools_.find(pool); p != pools_.end()) {
        give(p->second.device, p->second.reserved);
        pools_.erase(p);
    }
}

CUresult Quota::allocate_from(CUmemoryPool pool, std::uint64_t bytes, const std::function<CUresult()>& function) {
    const std::lock_guard lock(mutex);
    note_pool(pool, current());
    graphs_allocate_ = true;  // a stream captures
    if (limit() == 0) {
        limited_ = false;
        return function();
    }
    Pool& its = pools_.at(pool);
    count(pool, its);
    if (const std::uint64_t more = lacks(pool, bytes); more && !take(its.device, more)) {
        trim(its.device);
        if (!take(its.device, lacks(pool, bytes))) return CUDA_ERROR_OUT_OF_MEMORY;
        its.reserved += lacks(pool, bytes);
    } else {
        its.reserved += more;
    }
    const CUresult r = function();
    count(pool, its);
    count_graphs(its.device);
    return r;
}

std::uint64_t Quota::attribute(CUmemoryPool pool, CUmemPool_attribute which) const {
    cuuint64_t value = 0;
    real.cuMemPoolGetAttribute(pool, which, &value);
    return value;
}

void Quota::count(CUmemoryPool pool, Pool& its) {
    set_counted(its.device, its.reserved, attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT));
}

// What the pool would have to reserve for these bytes.
std::uint64_t Quota::lacks(CUmemoryPool pool, std::uint64_t bytes) const {
    const std::uint64_t reserved = attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
    return less(bytes, less(reserved, attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT)));
}

void Quota::trim(CUdevice device) {
    for (auto& [pool, its] : pools_)
        if (its.device == device) {
            real.cuMemPoolTrimTo(pool, 0);
            count(pool, its);
        }
    if (!graphs_allocate_) return;
    real.cuDeviceGraphMemTrim(device);
    trimmed(device);
}

void Quota::trimmed(CUdevice device) {
    for (auto& [exec, its] : execs_) its.placed = false;
    count_graphs(device);
}

// ---- physical memory

CUresult Quota::create(CUdevice device, std::uint64_t bytes, CUmemGenericAllocationHandle* handle,
                       const std::function<CUresult()>& function) {
    const std::lock_guard lock(mutex);
    if (!has(device)) return CUDA_ERROR_INVALID_DEVICE;
    if (!take_or_trim(device, bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
    const CUresult r = function();
    if (r != CUDA_SUCCESS) {
        give(device, bytes);
        return r;
    }
    const auto [p, fresh] = physical_.try_emplace(*handle, Physical{device, bytes, 1, 0});
    if (!fresh) {  // a driver may know what it has imported as what it has
        ++p->second.handles;
        give(device, bytes);
    }
    note(device);
    return r;
}
Quota::Extent Quota::extent_of(CUmemGenericAllocationHandle handle) {
    const std::lock_guard lock(mutex);
    const auto p = physical_.find(handle);
    return p == physical_.end() ? Extent{} : Extent{p->second.device, p->second.bytes};
}
void Quota::held(CUmemGenericAllocationHandle handle, int more) {
    if (const auto p = physical_.find(handle); p != physical_.end()) {
        p->second.handles += more;
        settle(p);
    }
}
void Quota::mapped(CUdeviceptr address, std::uint64_t bytes, CUmemGenericAllocationHandle handle) {
    mappings_[address] = {bytes, handle};
    if (const auto p = physical_.find(handle); p != physical_.end()) ++p->second.mappings;
}
void Quota::unmapped(CUdeviceptr address, std::uint64_t bytes) {
    for (auto m = mappings_.lower_bound(address); m != mappings_.end() && m->first - address < bytes;) {
        if (const auto p = physical_.find(m->second.handle); p != physical_.end()) {
            --p->second.mappings;
            settle(p);
        }
        m = mappings_.erase(m);
    }
}
void Quota::settle(std::map<CUmemGenericAllocationHandle, Physical>::iterator p) {
    if (p->second.handles > 0 || p->second.mappings > 0) return;
    give(p->second.device, p->second.bytes);
    physical_.erase(p);
}

// ---- graphs

std::uint64_t Quota::graph_attribute(CUdevice device, CUgraphMem_attribute which) const {
    cuuint64_t value = 0;
    real.cuDeviceGetGraphMemAttribute(device, which, &value);
    return value;
}

void Quota::count_graphs(CUdevice device) {
    Books& b = books_[device];
    set_counted(device, b.graphs, graph_attribute(device, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT));
}

void Quota::count_graphs() {
    if (!graphs_allocate_ || limit() == 0) return;
    for (auto& [device, b] : books_) count_graphs(device);
}

CUresult Quota::add_node(CUdevice device, std::uint64_t bytes, const std::function<CUresult()>& function) {
    const std::lock_guard lock(mutex);
    if (!has(device)) return CUDA_ERROR_INVALID_VALUE;
    graphs_allocate_ = true;
    if (limit() == 0) {
        limited_ = false;
        return function();
    }
    if (!take_or_trim(device, bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
    const CUresult r = function();
    give(device, bytes);
    count_graphs(device);
    return r;
}

// Bodies of conditional nodes have no such nodes: CUDA forbids it.
void Quota::add_nodes(CUgraph graph, Exec& exec, unsigned depth) const {
    constexpr unsigned deepest = 64;
    std::size_t all = 0;
    if (depth > deepest || real.cuGraphGetNodes(graph, nullptr, &all) != CUDA_SUCCESS) return;
    std::vector<CUgraphNode> nodes(all);
    if (real.cuGraphGetNodes(graph, nodes.data(), &all) != CUDA_SUCCESS) return;
    for (CUgraphNode node : nodes) {
        CUgraphNodeType type{};
        CUgraph child = nullptr;
        CUDA_MEM_ALLOC_NODE_PARAMS memory{};
        if (real.cuGraphNodeGetType(node, &type) != CUDA_SUCCESS) continue;
        if (type == CU_GRAPH_NODE_TYPE_GRAPH && real.cuGraphChildGraphNodeGetGraph(node, &child) == CUDA_SUCCESS)
            add_nodes(child, exec, depth + 1);
        if (type == CU_GRAPH_NODE_TYPE_MEM_ALLOC && real.cuGraphMemAllocNodeGetParams(node, &memory) == CUDA_SUCCESS)
            exec.bytes[memory.poolProps.location.id] += memory.bytesize;
    }
}

void Quota::instantiated(CUgraph graph, CUgraphExec exec) {
    if (!graphs_allocate_) return;
    Exec its;
    add_nodes(graph, its, 0);
    if (!its.bytes.empty()) execs_[exec] = its;
    count_graphs();
}

CUresult Quota::launch(CUgraphExec exec, const std::function<CUresult()>& function) {
    const std::lock_guard lock(mutex);
    const auto its = execs_.find(exec);
    if (its == execs_.end()) return function();
    if (limit() == 0) {
        its->second.placed = true;
        limited_ = false;
        return function();
    }
    std::map<CUdevice, std::uint64_t> taken;
    bool room = true;
    for (const auto& [device, bytes] : its->second.bytes) {
        if (its->second.placed || !room) break;
        const std::uint64_t reserved = graph_attribute(device, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT),
                            used = graph_attribute(device, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT);
        room = take_or_trim(device, taken[device] = less(bytes, less(reserved, used)));
        if (!room) taken.erase(device);
    }
    const CUresult r = room ? function() : CUDA_ERROR_OUT_OF_MEMORY;
    its->second.placed |= r == CUDA_SUCCESS;
    for (const auto& [device, bytes] : taken) {
        give(device, bytes);
        count_graphs(device);
    }
    return r;
}

}  // namespace barcuda
