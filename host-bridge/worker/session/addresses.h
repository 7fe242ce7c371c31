// SPDX-License-Identifier: Apache-2.0
// addresses.h: which device addresses a client may name. A range is the client's if it is in the client's extents, or
// if the driver says that it is device memory of this process, within the bounds that the driver reports: never the
// worker's own memory, which the driver would accept as well. The driver's answers are kept until something is freed,
// because a question costs more than most commands. A driver need not know memory that a graph will allocate later,
// although copies of that graph name it: memory that the driver has promised to a graph is the client's while the graph
// exists. Two things the driver cannot know: memory that the client has freed and the driver still has (deferred.h) is
// no longer the client's; and memory of another process is closed as often as it was opened.
#pragma once
#include <iterator>
#include <map>
#include <set>
#include <unordered_map>

#include "host-bridge/worker/session/extents.h"
#include "host-bridge/worker/session/streams.h"
#include "shm-device/kinds/verdict.h"
#include "shm-device/layout.h"

namespace barcuda {

class Addresses {
  public:
    Addresses(const Driver& driver, const Extents& extents, const Streams& streams)
        : driver_(driver), extents_(extents), streams_(streams) {}

    // Whether the GPU may access [address, address + bytes) for this client.
    Verdict reachable(CUdeviceptr address, std::uint64_t bytes);
    Verdict reachable_rows(CUdeviceptr address, std::uint64_t pitch, std::uint64_t width, std::uint64_t height);
    void forget() { reachable_.clear(); }
    void forget(CUdeviceptr freed) {
        const auto known = allocations_.find(freed);
        if (known != allocations_.end() && !known->second.retired) allocations_.erase(known);
        forget();
    }
    void context_gone(CUcontext context) {
        std::erase_if(allocations_, [&](const auto& known) { return known.second.context == context; });
        promised_.clear();
        std::erase_if(variables_, [&](const auto& known) { return known.second.context == context; });
        forget();
    }

    // ---- promised to a graph
    void promise(CUdeviceptr address, std::uint64_t bytes, CUgraph graph) {
        promised_[address] = {bytes, graph, nullptr};
        given_again(address);
    }
    bool is_a_graphs(CUdeviceptr address) const { return promised_.contains(address); }
    // To the graph that the stream is capturing, if any.
    void promise_in_capture(CUdeviceptr address, std::uint64_t bytes, CUstream stream);
    void capture_ended(CUstream stream, CUgraph graph);  // null: with an error
    void graph_gone(CUgraph graph) {
        std::erase_if(promised_, [&](const auto& p) { return p.second.graph == graph; });
    }
    void stream_gone(CUstream stream) {
        std::erase_if(promised_, [&](const auto& p) { return p.second.capturing == stream; });
    }

    // ---- by cuMemAlloc
    struct Allocation {
        std::uint64_t bytes = 0;  // as the client requested
        CUcontext context = nullptr;
        bool retired = false;  // its entry stays: programs often allocate it again
    };
    void allocated(CUdeviceptr address, const Allocation& allocation) {
        allocations_[address] = allocation;
        given_again(address);
    }
    Allocation allocation(CUdeviceptr address) const {  // 0 bytes: none, or one that other processes may see
        const auto known = allocations_.find(address);
        return known == allocations_.end() || known->second.retired ? Allocation{} : known->second;
    }

    // ---- freed by the client, but not yet by the driver
    void retire(CUdeviceptr address) {
        const auto known = allocations_.find(address);
        if (known != allocations_.end() && !known->second.retired) known->second.retired = true;
        else retired_.insert(address);
        forget();
    }
    bool is_retired(CUdeviceptr address) const {
        const auto known = allocations_.find(address);
        return (known != allocations_.end() && known->second.retired) || retired_.contains(address);
    }
    void end_retirement(CUdeviceptr address) {  // the driver has freed it
        const auto known = allocations_.find(address);
        if (known != allocations_.end() && known->second.retired) allocations_.erase(known);
        else if (const auto at = retired_.find(address); at != retired_.end()) retired_.erase(at);
    }

    // ---- freed in a stream's order, and perhaps not yet by the driver: it may have the memory until a thread waits
    // for the stream, though the GPU is done, and the client's waits do not reach it. While that free waited, NVIDIA's
    // driver (580.159, H100) took a second one of cuMemAlloc's memory, and crashed in a later wait. `buffer`: the
    // driver's number of the memory, since other memory may come to lie there
    void freed_in_order(CUdeviceptr address, std::uint64_t buffer) {
        in_order_[address] = buffer;
        forget();
    }
    bool is_freed_in_order(CUdeviceptr address) const {
        const auto at = in_order_.find(address);
        return at != in_order_.end() && at->second == buffer_at(address);
    }
    bool any_freed_in_order() const { return !in_order_.empty(); }
    std::uint64_t buffer_at(CUdeviceptr address) const;  // 0: the driver has no memory there
    void given_again(CUdeviceptr address) { in_order_.erase(address); }
    void forget_freed() {  // drops what the driver has freed by now
        std::erase_if(in_order_, [this](const auto& f) { return f.second == 0 || f.second != buffer_at(f.first); });
    }

    // ---- variables of loaded code: they go with it
    void note_variable(CUdeviceptr address, std::uint64_t bytes, std::uint64_t code, CUcontext context) {
        variables_[address] = {bytes, code, context, false};
    }
    // The client has unloaded the code, and the driver may still have it.
    void retire_variables(std::uint64_t code) {
        for (auto& [address, variable] : variables_) variable.retired |= variable.code == code;
        forget();
    }
    void end_variables(std::uint64_t code) {
        std::erase_if(variables_, [code](const auto& v) { return v.second.code == code; });
    }
    template <class F> void each_variable(CUcontext context, F act) const {
        for (const auto& [address, variable] : variables_)
            if (variable.context == context) act(address);
    }
    bool is_variable(CUdeviceptr address) const {
        const auto behind = variables_.upper_bound(address);
        if (behind == variables_.begin()) return false;
        const auto& [start, variable] = *std::prev(behind);
        return !variable.retired && address - start < variable.bytes;
    }
    // Some of it is a variable of code that the client has unloaded.
    bool went_with_its_code(CUdeviceptr address, std::uint64_t bytes) const {
        auto at = variables_.upper_bound(address);
        if (at != variables_.begin()) --at;
        for (; at != variables_.end() && (at->first <= address || at->first - address < bytes); ++at)
            if (at->second.retired && (at->first > address || address - at->first < at->second.bytes)) return true;
        return false;
    }

    // ---- shared with other processes
    void note_shared(CUdeviceptr address);  // it must not be recycled after it is freed
    void note_opened(CUdeviceptr address) { ++opened_[address]; }
    bool close(CUdeviceptr address);  // false: it is not open

  private:
    struct Promise {
        std::uint64_t bytes;
        CUgraph graph;
        CUstream capturing;  // not null: valid while this stream captures the graph
    };
    struct Variable {
        std::uint64_t bytes, code;  // code: the driver's handle
        CUcontext context;
        bool retired;
    };
    bool promised(CUdeviceptr address, std::uint64_t bytes) const;

    const Driver& driver_;
    const Extents& extents_;
    const Streams& streams_;
    std::map<CUdeviceptr, Promise> promised_;
    std::map<CUdeviceptr, std::uint64_t> reachable_;  // start -> bytes, as the driver reported
    std::unordered_map<CUdeviceptr, Allocation> allocations_;
    std::map<CUdeviceptr, Variable> variables_;
    std::unordered_map<CUdeviceptr, std::uint64_t> in_order_;
    std::multiset<CUdeviceptr> retired_;      // others: memory of another process as often as it was closed
    std::map<CUdeviceptr, unsigned> opened_;  // memory of another process, and how often it was opened
};

}  // namespace barcuda
