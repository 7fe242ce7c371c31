// SPDX-License-Identifier: Apache-2.0
// launches.h: launches on their way to the driver. One costs a driver 3 us, whatever the kernel does; the launch of a
// graph half of that, for all its kernels together, and to set a node's parameters a tenth. So launches that the queue
// holds, one behind the other in a stream, go to the driver as a chain: a graph of kernels that was made once and whose
// nodes are set anew each time; and a launch that is alone as a chain of one, where there is one of its kernel. What it
// is to a program stays the same: the order within each stream, and between a launch and everything that is not one; an
// error is that of the launch alone.
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
    // `make_room`: releases what has been put off; false: there was nothing.
    Launches(const Driver& driver, const Contexts& contexts, const Streams& streams, Fences& fences,
             std::function<bool()> make_room);

    struct Launch {
        CUfunction function;
        ext::Shape shape;
        const void* parameters;
        std::size_t bytes;
    };
    // One, at once.
    CUresult launch(const Launch& launch, CUstream stream);
    // A launch, held until flush(): when the queue is empty, or brings something else than a launch.
    CUresult hold(CUfunction function, const ext::Shape& shape, CUstream stream, const void* parameters,
                  std::size_t bytes);
    // Everything held, to the driver. Launches that the driver refuses are reported like any failed posted command.
    void flush();

    // Chains remember what functions and streams were like. Where that changes, or such a thing goes, they go too.
    void forget();
    void forget(CUstream stream);

  private:
    struct Length {
        unsigned kernels;  // of a chain
        unsigned most;     // chains of this length, for a stream
    };
    static constexpr std::array<Length, 3> lengths{{{16, 8}, {4, 8}, {1, 32}}};
    static constexpr unsigned longest = lengths.front().kernels;
    static constexpr unsigned most_streams = 16;     // for which launches are held at once
    static constexpr std::size_t most_bytes = 4096;  // of parameters; launches with more go alone
    static constexpr unsigned most_chains = 2048;    // of all streams
    // A chain takes 30 to 300 us to make, and saves 1.5 us or more for each of its kernels.
    static constexpr unsigned worth_a_chain = 64;

    struct Place {
        CUcontext context = nullptr;
        CUstream stream = nullptr;
        auto operator<=>(const Place&) const = default;
    };
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
        std::vector<CUfunction> functions;  // of the nodes: to set another one is dear
        std::uint64_t used;
    };
    struct Chains {
        struct OfLength {
            unsigned missed = 0;  // kernels that might have gone in such chains since the last one was made
            std::vector<Chain> all;
        };
        bool barred = false;  // a launch of this stream is not the same as a graph's
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
    unsigned made_ = 0;  // chains that are there
    std::uint64_t clock_ = 0;
};

}  // namespace barcuda
