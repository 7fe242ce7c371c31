// SPDX-License-Identifier: Apache-2.0
// launches.h: launches on their way to the driver. A launch costs a driver 3 us, whatever the kernel does; the launch
// of a graph costs half of that, for all of its kernels together, and setting a node's parameters a tenth. So
// consecutive launches of a stream in the queue go to the driver as a chain: a graph of kernels that is made once, and
// whose nodes are set again each time. A single launch goes as a chain of one, if there is one of its kernel. For a
// program nothing changes: the order within each stream, and between a launch and everything that is not one; an error
// is the error of that launch only.
#pragma once
#include <cuda.h>

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "host-bridge/worker/session/fences.h"
#include "shm-device/rows/launch.h"

namespace barcuda {

class Launches {
  public:
    // `make_room`: releases deferred memory; false: there was none.
    Launches(const Driver& driver, const Contexts& contexts, const Streams& streams, Fences& fences,
             std::function<bool()> make_room);

    struct Launch {
        CUfunction function;
        ext::Shape shape;
        const void* parameters;
        std::size_t bytes;
    };
    // Launches at once.
    CUresult launch(const Launch& launch, CUstream stream);
    // Holds a launch until flush(): when the queue is empty, or the next command is not a launch.
    CUresult hold(CUfunction function, const ext::Shape& shape, CUstream stream, const void* parameters,
                  std::size_t bytes);
    // Gives everything held to the driver. Launches that the driver refuses are reported like any failed posted
    // command.
    void flush();

    // Chains depend on properties of functions and streams. If those change, or a function or stream ends, the chains
    // are dropped.
    void forget();
    void forget(CUstream stream);

  private:
    struct Length {
        unsigned kernels;  // in a chain
        unsigned most;     // chains of this length for a stream
    };
    static constexpr std::array<Length, 3> lengths{{{16, 8}, {4, 8}, {1, 32}}};
    static constexpr unsigned longest = lengths.front().kernels;
    static constexpr unsigned most_streams = 16;     // for which launches are held at the same time
    static constexpr std::size_t most_bytes = 4096;  // of parameters; larger launches are made alone
    static constexpr unsigned most_chains = 2048;    // of all streams together
    // Making a chain takes 30 to 300 us, and it saves 1.5 us or more for each of its kernels.
    static constexpr unsigned worth_a_chain = 64;

    struct Place {
        CUstream stream = nullptr;  // first: what there is of a stream lies together
        CUcontext context = nullptr;
        auto operator<=>(const Place&) const = default;
    };
    // A driver reads as many bytes as a kernel's parameters have, even if the guest sent fewer: the buffer has room for
    // the most after the last one.
    static std::unique_ptr<std::byte[]> room_for_parameters();
    struct Run {  // what is held for a stream
        Place place;
        unsigned count = 0;
        std::array<Launch, longest> launches;
        std::unique_ptr<std::byte[]> parameters;
    };
    struct Chain {
        CUgraph graph;
        CUgraphExec exec;
        std::vector<CUgraphNode> nodes;
        std::vector<CUfunction> functions;  // of the nodes: setting another one is expensive
        std::uint64_t used;
    };
    struct Chains {
        struct OfLength {
            unsigned missed = 0;  // kernels that could have used such a chain since the last one was made
            std::vector<Chain> all;
        };
        bool barred = false;  // a launch in this stream differs from a graph's
        std::array<OfLength, lengths.size()> of_length;
        bool empty() const;
    };

    void flush(Run& run);
    Chains* chains_for(const Run& run);
    void launch_alone(const Launch& launch, CUstream stream);
    bool launch_chain(Chains& chains, std::size_t length, const Launch* launches, CUstream stream);
    Chain* pick(Chains& chains, std::size_t length, const Launch* launches, CUstream stream);
    Chain* make(Chains& chains, std::size_t length, const Launch* launches, CUstream stream);
    bool special(CUstream stream) const;
    void destroy(const Chains& chains);

    const Driver& driver_;
    const Contexts& contexts_;
    const Streams& streams_;
    Fences& fences_;
    const std::function<bool()> make_room_;
    std::array<Run, most_streams> runs_;
    unsigned held_ = 0;  // runs
    std::map<Place, Chains> chains_;
    unsigned made_ = 0;  // number of chains
    std::uint64_t clock_ = 0;
};

}  // namespace barcuda
