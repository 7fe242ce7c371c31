// SPDX-License-Identifier: Apache-2.0
// given_work_test: whatever gives a stream work must be seen to do so, from its row alone: a stream that has been given
// nothing since it was waited for is destroyed without a fence, and waits for the device pass it over
// (guest-allocator/client/given_work.h).
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "shm-device/rows/commands.h"
#include "shm-device/rows/library_commands.h"

namespace barcuda {
namespace {

template <class> constexpr std::size_t streams_of = 0;
template <class... P>
constexpr std::size_t streams_of<std::tuple<P...>> = (std::size_t{std::is_same_v<P, CUstream>} + ... + 0);

struct Row {
    Op op;
    std::size_t streams;
    How how;
};
constexpr Row rows[] = {
#define X(name, ...) {Op::name, streams_of<RowOf<Op::name>::Arguments>, RowOf<Op::name>::how},
    BARCUDA_ROWS(X)
#undef X
};
std::string name(const Row& row) { return std::string(op_names[static_cast<std::size_t>(row.op)]); }

// A row with two streams would count for the first one alone, and the guest would not know of the other's work.
TEST(GivenWork, IsOneStreams) {
    for (const Row& row : rows)
        if (has(row.op, trait::work)) { EXPECT_LE(row.streams, 1u) << name(row); }
}

// A row that names a stream gives it work, or asks, or is one of these.
TEST(GivenWork, IsWhatEachRowWithAStreamGives) {
    using Names = std::set<std::string>;
    const Names done_when_answered = {"copy_out", "box_out"};
    const Names orders_alone = {"cuMemAllocAsync", "cuMemAllocFromPoolAsync", "write_fence"};  // nothing to wait for
    const Names of_later_work = {"cublasSetStream_v2", "cuStreamCopyAttributes", "cuStreamSetAttribute"};
    const Names of_graphs = {"cuStreamBeginCapture_v2", "cuStreamBeginCaptureToGraph", "cuStreamEndCapture",
                             "cuStreamUpdateCaptureDependencies_v2", "capture_info"};
    Names others = {"cuStreamDestroy_v2"};
    for (const Names& names : {done_when_answered, orders_alone, of_later_work, of_graphs})
        others.insert(names.begin(), names.end());
    Names found;
    for (const Row& row : rows)
        if (row.streams && !has(row.op, trait::work | trait::asks)) found.insert(name(row));
    EXPECT_EQ(found, others);
}

// Kernels run in some stream: where the row names none, the work counts as any stream's.
TEST(GivenWork, IsWhatRunsKernels) {
    for (const Row& row : rows)
        if (has(row.op, trait::kernels)) { EXPECT_TRUE(has(row.op, trait::work)) << name(row); }
}

// What a math library is told without an answer may have put something into its handle's stream.
TEST(GivenWork, IsWhatLibrariesArePostedButForTheirSettings) {
    std::set<std::string> found;
    for (const Row& row : rows)
        if (library_of(row.op) && row.how == How::post && !has(row.op, trait::work)) found.insert(name(row));
    EXPECT_EQ(found, (std::set<std::string>{"cublasSetStream_v2"}));
}

}  // namespace
}  // namespace barcuda
