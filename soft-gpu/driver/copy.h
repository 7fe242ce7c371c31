// SPDX-License-Identifier: Apache-2.0
// copy.h: copies and fills. All forms of cuMemcpy become one: a box of rows from one side to the other. Device sides
// are checked before the copy is queued: a range that is not completely allocated is refused. They are checked again
// when it runs: graphs run it repeatedly, and memory may have been unmapped meanwhile.
#pragma once
#include <vector>

#include "soft-gpu/driver/array.h"
#include "soft-gpu/driver/operation.h"

namespace barcuda::soft::driver {

// A copy of a program's bytes, kept until they are at their target. All streams share one limit.
class Staged {
  public:
    static std::shared_ptr<const Staged> of(const std::byte* start, std::size_t bytes);  // null: too many
    explicit Staged(std::vector<std::byte> bytes) : bytes(std::move(bytes)) {}
    ~Staged();
    Staged(const Staged&) = delete;
    const std::vector<std::byte> bytes;
};

struct Copy final : OperationOf<Copy, CU_GRAPH_NODE_TYPE_MEMCPY> {
    struct Side {
        std::byte* start = nullptr;
        std::size_t row = 0, slice = 0;  // bytes from one to the next
        std::shared_ptr<Array> array{};  // keeps the array alive
        bool pageable = false, device = false;
        CUcontext context{};  // of device memory
        // bytes from `start` that must be the device's; 0: memory of the host or of an array
        std::size_t checked = 0;
    };
    Side from, to;
    std::size_t width = 0, height = 1, depth = 1;  // bytes, rows, slices
    std::shared_ptr<const Staged> staged{};        // the source's bytes, if the call had to copy them
    CUDA_MEMCPY3D asked{};                         // for queries of graph nodes

    void run(Context&) override;
    std::size_t bytes() const { return width * height * depth; }
};

// How the API names a side: `host` memory is trusted, `device` memory is checked, `any` is looked up.
enum class Where { host, device, any };
std::shared_ptr<Copy> copy_line(std::uintptr_t to, Where to_where, std::uintptr_t from, Where from_where,
                                std::size_t bytes);
std::shared_ptr<Copy> copy_box(const CUDA_MEMCPY3D& box);
CUDA_MEMCPY3D as_box(const CUDA_MEMCPY2D& rectangle);
CUDA_MEMCPY3D as_box(const CUDA_MEMCPY3D_PEER& box);

struct Fill final : OperationOf<Fill, CU_GRAPH_NODE_TYPE_MEMSET> {
    CUDA_MEMSET_NODE_PARAMS asked{};
    bool captured = false;
    void run(Context&) override;
};
// Throws CUDA_ERROR_INVALID_VALUE for a target that is not completely allocated, or misaligned. The target of a
// captured fill may be anywhere until its graph is instantiated (seen on an H100 with 580.159): cuDNN captures fills of
// null, and sets the addresses later.
std::shared_ptr<Fill> fill(const CUDA_MEMSET_NODE_PARAMS& asked, bool captured = false);
bool is_there(const CUDA_MEMSET_NODE_PARAMS& asked);

}  // namespace barcuda::soft::driver
