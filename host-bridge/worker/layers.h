// SPDX-License-Identifier: Apache-2.0
// layers.h: what stands between a worker's session and the driver. A layer puts functions of its own into the driver's
// table in place of some that were there, and calls those. So the order says who sees what: the session calls the top,
// and what a layer does by itself is seen by those below it alone.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <utility>

#include "host-bridge/between/driver.h"

namespace barcuda {

enum class Layer : std::uint8_t {  // from the bottom
    driver,                        // NVIDIA's, or the software GPU's
    memory,  // the place of an allocator of ours: its blocks are charged as the driver's memory is
    quota,   // counts, and refuses what is over a limit (quota/quota.h)
    count
};

class Layers {
  public:
    // `table`: the driver's, as it was opened. It is what the session calls, and stays where it is.
    explicit Layers(Driver& table) : table_(table) {}

    // `layer` goes on top: f(table) puts its functions there. It must not be there yet, and none that belongs above it.
    template <class F> void put(Layer layer, F&& f) {
        if (layer <= top_) std::abort();  // a bug of the caller
        below_[static_cast<std::size_t>(layer)] = table_;
        std::forward<F>(f)(table_);
        top_ = layer;
    }
    Layer top() const { return top_; }
    // What that layer calls, once it is there: the table as it was.
    const Driver& below(Layer layer) const { return below_[static_cast<std::size_t>(layer)]; }

  private:
    Driver& table_;
    Layer top_ = Layer::driver;
    std::array<Driver, static_cast<std::size_t>(Layer::count)> below_;
};

}  // namespace barcuda
