// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/worker/session/launches.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "base/trace.h"
#include "host-bridge/worker/session/launch.h"
#include "shm-device/queue/wire.h"
#include "shm-device/rows/commands.h"

namespace barcuda {

Launches::Launches(const Driver& driver, const Contexts& contexts, const Streams& streams, Fences& fences,
                   std::function<bool()> make_room)
    : driver_(driver), contexts_(contexts), streams_(streams), fences_(fences), make_room_(std::move(make_room)) {
    runs_[0].parameters = room_for_parameters();  // not in the first launch
}

std::unique_ptr<std::byte[]> Launches::room_for_parameters() {
    return std::make_unique<std::byte[]>(longest * most_bytes + wire::most_parameter_bytes);
}

CUresult Launches::hold(CUfunction function, const ext::Shape& shape, CUstream stream, const void* parameters,
                        std::size_t bytes) {
    if (stream == CU_STREAM_LEGACY) stream = nullptr;  // two names of one stream
    const Place place{stream, contexts_.current()};
    // the default stream waits for the others, and they for it
    if (held_ && !stream != !runs_[0].place.stream) flush();
    auto end = runs_.begin() + held_;
    auto run = std::find_if(runs_.begin(), end, [&](const Run& r) { return r.place == place; });
    // A full run flushes all: otherwise a launch would be held while other streams get launches.
    if (run == runs_.end() || (run != end && run->count == longest) || bytes > most_bytes) {
        flush();
        run = end = runs_.begin();
    }
    if (run == end) {
        run->place = place;
        run->count = 0;
        ++held_;
    }
    if (!run->parameters) run->parameters = room_for_parameters();
    Launch& launch = run->launches[run->count];
    launch = {function, shape, parameters, bytes};
    if (bytes <= most_bytes)
        launch.parameters = std::memcpy(run->parameters.get() + run->count * most_bytes, parameters, bytes);
    ++run->count;
    if (bytes > most_bytes) flush();
    return CUDA_SUCCESS;
}

void Launches::flush() {
    for (Run& run : std::span(runs_).first(held_)) flush(run);
    held_ = 0;
}

void Launches::flush(Run& run) {
    const CUstream stream = run.place.stream;
    Chains* chains = chains_for(run);
    for (unsigned i = 0; i < run.count;) {
        const Launch* next = run.launches.data() + i;
        const auto fits = std::ranges::find_if(lengths, [&](const Length& l) { return l.kernels <= run.count - i; });
        if (chains && launch_chain(*chains, static_cast<std::size_t>(fits - lengths.begin()), next, stream))
            i += fits->kernels;
        else {  // making room may have unloaded code
            launch_alone(*next, stream);
            ++i;
            chains = chains_for(run);
        }
    }
}

// Null: no launch of this run can be part of a chain.
Launches::Chains* Launches::chains_for(const Run& run) {
    if (streams_.capturing(run.place.stream)) return nullptr;
    Chains& chains = chains_[run.place];
    return chains.barred ? nullptr : &chains;
}

CUresult Launches::launch(const Launch& l, CUstream stream) {
    const trace::Slice slice("cuLaunchKernel");
    const ext::Shape& s = l.shape;
    Packed packed(l.parameters, l.bytes);
    if (!s.cooperative && !s.clustered())
        return driver_.cuLaunchKernel(l.function, s.grid[0], s.grid[1], s.grid[2], s.block[0], s.block[1], s.block[2],
                                      s.shared_bytes, stream, nullptr, packed.extra);
    const LaunchConfig config(s, stream);
    return driver_.cuLaunchKernelEx ? driver_.cuLaunchKernelEx(&config.config, l.function, nullptr, packed.extra)
                                    : CUDA_ERROR_NOT_SUPPORTED;
}

void Launches::launch_alone(const Launch& l, CUstream stream) {
    CUresult r = launch(l, stream);
    if (r == CUDA_ERROR_OUT_OF_MEMORY && make_room_()) r = launch(l, stream);
    if (r != CUDA_SUCCESS) fences_.post_failure(static_cast<std::uint32_t>(Op::launch), r);
}

// False: nothing was launched. Then the caller makes the launches one by one, which gives the reason.
bool Launches::launch_chain(Chains& chains, std::size_t length, const Launch* launches, CUstream stream) {
    Chain* chain = pick(chains, length, launches, stream);
    if (!chain) return false;
    const trace::Slice slice("a chain of launches");
    chain->used = ++clock_;
    for (std::size_t i = 0; i < chain->nodes.size(); ++i) {
        const Launch& l = launches[i];
        Packed packed(l.parameters, l.bytes);
        const CUDA_KERNEL_NODE_PARAMS node = node_of(l.function, l.shape, packed);
        if (driver_.cuGraphExecKernelNodeSetParams_v2(chain->exec, chain->nodes[i], &node) != CUDA_SUCCESS)
            return false;
        chain->functions[i] = l.function;
    }
    return driver_.cuGraphLaunch(chain->exec, stream) == CUDA_SUCCESS;
}

// A chain whose nodes already have these functions, a new one if that is worth it, or the least recently used one.
// (Setting the function of a single node is no cheaper than a launch.)
Launches::Chain* Launches::pick(Chains& chains, std::size_t length, const Launch* launches, CUstream stream) {
    Chains::OfLength& known = chains.of_length[length];
    known.missed += lengths[length].kernels;
    Chain* oldest = nullptr;
    for (Chain& c : known.all) {
        if (std::ranges::equal(c.functions, std::span(launches, c.functions.size()), {}, {}, &Launch::function))
            return &c;
        if (!oldest || c.used < oldest->used) oldest = &c;
    }
    if (known.all.size() < lengths[length].most && made_ < most_chains && known.missed >= worth_a_chain)
        return make(chains, length, launches, stream);
    return lengths[length].kernels > 1 ? oldest : nullptr;
}

Launches::Chain* Launches::make(Chains& chains, std::size_t length, const Launch* launches, CUstream stream) {
    const trace::Slice slice("making a chain");
    Chain chain{};
    chains.of_length[length].missed = 0;
    chains.barred = chains.empty() && special(stream);
    if (chains.barred) return nullptr;
    chains.barred = true;  // unless this succeeds
    if (driver_.cuGraphCreate(&chain.graph, 0) != CUDA_SUCCESS) return nullptr;
    for (unsigned i = 0; i < lengths[length].kernels; ++i) {
        Packed packed(launches[i].parameters, launches[i].bytes);
        const CUDA_KERNEL_NODE_PARAMS node = node_of(launches[i].function, launches[i].shape, packed);
        const CUgraphNode* after = i ? &chain.nodes.back() : nullptr;
        CUgraphNode made = nullptr;
        if (driver_.cuGraphAddKernelNode_v2(&made, chain.graph, after, i ? 1 : 0, &node) != CUDA_SUCCESS) {
            // An impossible launch is no reason to give up chains.
            chains.barred = false;
            driver_.cuGraphDestroy(chain.graph);
            return nullptr;
        }
        chain.nodes.push_back(made);
        chain.functions.push_back(launches[i].function);
    }
    if (driver_.cuGraphInstantiateWithFlags(&chain.exec, chain.graph, 0) != CUDA_SUCCESS) {
        driver_.cuGraphDestroy(chain.graph);
        return nullptr;
    }
    chains.barred = false;
    ++made_;
    return &chains.of_length[length].all.emplace_back(std::move(chain));
}

// Attributes of a stream apply to its launches, but not to the nodes of a graph.
bool Launches::special(CUstream stream) const {
    const auto value = [&](CUstreamAttrID id) {
        CUstreamAttrValue v{};
        return driver_.cuStreamGetAttribute(stream, id, &v) == CUDA_SUCCESS ? v : CUstreamAttrValue{};
    };
    return value(CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW).accessPolicyWindow.num_bytes != 0 ||
           value(CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN).memSyncDomain != CU_LAUNCH_MEM_SYNC_DOMAIN_DEFAULT ||
           value(CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP).memSyncDomainMap.default_ != 0;
}

bool Launches::Chains::empty() const {
    return std::ranges::all_of(of_length, [](const OfLength& l) { return l.all.empty(); });
}

void Launches::destroy(const Chains& chains) {  // running work still finishes
    for (const Chains::OfLength& l : chains.of_length)
        for (const Chain& c : l.all) {
            driver_.cuGraphExecDestroy(c.exec);
            driver_.cuGraphDestroy(c.graph);
            --made_;
        }
}
void Launches::forget() {
    for (const auto& [place, chains] : chains_) destroy(chains);
    chains_.clear();
}
void Launches::forget(CUstream stream) {
    for (auto at = chains_.lower_bound({stream, nullptr}); at != chains_.end() && at->first.stream == stream;) {
        destroy(at->second);
        at = chains_.erase(at);
    }
}

}  // namespace barcuda
