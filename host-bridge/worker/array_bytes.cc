// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/worker/array_bytes.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "shm-device/kinds/structs.h"

namespace barcuda {
namespace {

// What copies cannot reach as rows of elements.
constexpr unsigned without_rows = CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING;

struct Rows {  // of an array, or of one level of a mipmap
    std::size_t bytes, count, slices;
};
// No bytes: its elements are in blocks, in planes, or not there.
Rows rows_of(const CUDA_ARRAY3D_DESCRIPTOR& shape) {
    const std::size_t element =
        shape.Flags & without_rows ? 0 : crossing::element_bytes(shape.Format, shape.NumChannels);
    return {shape.Width * element, std::max<std::size_t>(shape.Height, 1), std::max<std::size_t>(shape.Depth, 1)};
}

// f(id, array, rows) for each array, and each level of each mipmap, in its context, until one fails.
template <class F> Failure each_array(Session& session, const F& f) {
    const Driver& driver = session.driver();
    const Contexts::Visit visit(session.contexts());
    const auto look_at = [&](std::uint64_t id, CUarray array) -> Failure {
        CUDA_ARRAY3D_DESCRIPTOR shape{};
        if (driver.cuArray3DGetDescriptor_v2(&shape, array) != CUDA_SUCCESS)
            return fmt::format("the driver does not describe array {:#x}", id);
        return f(id, array, rows_of(shape));
    };
    for (const Handles::State::Object& object : session.handles().state().objects) {
        CUarray array = nullptr;
        CUmipmappedArray mipmap = nullptr;
        CUcontext context = nullptr;
        const Handles& handles = session.handles();
        const bool is_array = handles.find(object.id, array), is_mipmap = handles.find(object.id, mipmap);
        if ((!is_array && !is_mipmap) || (is_array && object.whole != 0)) continue;  // a part comes with its whole
        if (handles.find(object.context, context)) session.contexts().switch_to(context);
        if (is_array)
            if (Failure failure = look_at(object.id, array)) return failure;
        for (unsigned level = 0; is_mipmap && driver.cuMipmappedArrayGetLevel(&array, mipmap, level) == CUDA_SUCCESS;
             ++level)
            if (Failure failure = look_at(object.id, array)) return failure;
    }
    return {};
}

// f(copy, bytes) for each piece of an array that fits into a frame, until one fails. `copy` has the place in the array
// on its first side.
template <class F> Failure each_piece(const Rows& rows, const F& f) {
    const std::size_t most = std::min(rows.count, Conveyor::slot_bytes / rows.bytes);
    if (most == 0) return "a row of an array is longer than a frame";
    for (std::size_t slice = 0; slice < rows.slices; ++slice)
        for (std::size_t row = 0; row < rows.count; row += most) {
            CUDA_MEMCPY3D copy{};
            copy.WidthInBytes = rows.bytes;
            copy.Height = std::min(most, rows.count - row);
            copy.Depth = 1;
            copy.srcY = row;
            copy.srcZ = slice;
            if (Failure failure = f(copy, rows.bytes * copy.Height)) return failure;
        }
    return {};
}

Failure done(Session& session, const CUDA_MEMCPY3D& copy, std::uint64_t id) {
    const Driver& driver = session.driver();
    CUresult r = driver.cuMemcpy3DAsync_v2(&copy, CU_STREAM_PER_THREAD);
    if (const CUresult finished = driver.cuStreamSynchronize(CU_STREAM_PER_THREAD); r == CUDA_SUCCESS) r = finished;
    if (r == CUDA_SUCCESS) return {};
    return fmt::format("the driver does not copy array {:#x}: {}", id, driver.error_name(r));
}

}  // namespace

std::string unreadable_array(Session& session) {
    return each_array(
               session,
               [](std::uint64_t id, CUarray, const Rows& rows) -> Failure {
                   if (rows.bytes != 0) return {};
                   return fmt::format(
                       "array {:#x}, which is sparse, compressed or in planes, so that its contents are not read", id);
               })
        .text();
}

std::vector<Contents> contents_of_arrays(Session& session) {
    std::vector<Contents> all;
    (void)each_array(session, [&all](std::uint64_t id, CUarray, const Rows& rows) -> Failure {
        all.push_back({id, rows.bytes * rows.count * rows.slices});
        return {};
    });
    return all;
}

Failure save_arrays(Session& session, OutFrames& to) {
    return each_array(session, [&](std::uint64_t id, CUarray array, const Rows& rows) {
        return each_piece(rows, [&](CUDA_MEMCPY3D& copy, std::size_t bytes) -> Failure {
            std::byte* at = nullptr;
            if (Failure f = to.place(bytes, at)) return f;
            copy.srcMemoryType = CU_MEMORYTYPE_ARRAY;
            copy.srcArray = array;
            copy.dstMemoryType = CU_MEMORYTYPE_HOST;
            copy.dstHost = at;
            copy.dstPitch = rows.bytes;
            copy.dstHeight = copy.Height;
            return done(session, copy, id);
        });
    });
}

Failure load_arrays(Session& session, InFrames& from) {
    return each_array(session, [&](std::uint64_t id, CUarray array, const Rows& rows) {
        return each_piece(rows, [&](CUDA_MEMCPY3D& copy, std::size_t bytes) -> Failure {
            const std::byte* at = nullptr;
            if (Failure f = from.take(bytes, at)) return f;
            std::swap(copy.dstY, copy.srcY);
            std::swap(copy.dstZ, copy.srcZ);
            copy.dstMemoryType = CU_MEMORYTYPE_ARRAY;
            copy.dstArray = array;
            copy.srcMemoryType = CU_MEMORYTYPE_HOST;
            copy.srcHost = at;
            copy.srcPitch = rows.bytes;
            copy.srcHeight = copy.Height;
            return done(session, copy, id);
        });
    });
}

}  // namespace barcuda
