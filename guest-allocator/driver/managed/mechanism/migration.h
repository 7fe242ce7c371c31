// SPDX-License-Identifier: Apache-2.0
// migration.h: blocks migrate between the sides by DMA, in streams of the library's own. All under the state's lock.
#pragma once
#include <cuda.h>

#include <cstdint>
#include <mutex>
#include <unordered_map>

#include "guest-allocator/client/mutex.h"
#include "guest-allocator/driver/managed/state/epochs.h"
#include "guest-allocator/driver/managed/state/range.h"

namespace barcuda::guest::managed {

// What a context of the program's has for its migrations.
struct MigrationStream {
    CUcontext context =
        nullptr;  // of the stream, and of last_migration's event: the program's, or one of the library's own
    CUstream stream = nullptr;
    bool own_context_tried = false;
    bool reaches[2] = {};  // the own context was seen to reach allocations; variables
    // Other streams' later work waits for these: each is ordered after the one before.
    struct Mark {
        CUevent event = nullptr;
        std::uint64_t epoch = 0;
    } last_migration, last_function;
    std::uint64_t finished = 0;   // migrations up to this epoch have been waited for
    CUstream sent_in = nullptr;   // the last copies went to the device in this stream of the program's (Ride)
    CUevent order = nullptr;      // another stream's work so far (exclusive.cc)
    CUevent destroyed = nullptr;  // the work of all streams that were destroyed with work left
};
using MigrationStreams = std::unordered_map<CUcontext, MigrationStream>;
MigrationStreams& migration_streams() noexcept;  // by the program's contexts
MigrationStream* migration_stream(CUcontext context) noexcept;
MigrationStream* migration_stream_for(const Range& range) noexcept;  // that reaches its memory
// Waits for its migrations, and releases its own context, if it has one.
void end_migration_context(CUcontext context) noexcept;

// Blocks go to the device in the program's own stream, ahead of the work that wants them: that work need not wait for
// another stream. So it is if nothing else is at work in the context: the copies start at once, as in a migration
// stream, and other streams' later work waits for nothing but them. No stream begins to capture while a Ride lives.
class Ride {
  public:
    Ride() = default;  // none
    explicit Ride(ActiveStream& stream) noexcept;
    bool takes(const Range& range) const { return stream_ && stream_->context == range.context; }
    ActiveStream& stream() const { return *stream_; }

  private:
    std::unique_lock<Mutex> no_capture_begins_;
    ActiveStream* stream_ = nullptr;
};

// To the device: what the CPU may have written. begin_epoch() follows the last block that was sent.
bool write_back(const Range& range, const Run& run, const Ride& ride) noexcept;
void begin_epoch(const Range& range, const Ride& ride) noexcept;
// To the host: now, or in the order of a stream's work.
bool fetch_now(const Range& range, const Run& run) noexcept;
CUresult post_fetch(const Range& range, const Run& run, CUstream stream) noexcept;

// The stream as one that is given work.
ActiveStream& active_stream(CUstream real_stream) noexcept;
// All that the stream was given has been waited for, as far as this process knows. The GPU is not asked: its answer
// would be behind other streams' work in a queue of the hardware, and that work may wait for the calling thread.
bool is_idle(const ActiveStream& stream) noexcept;
// The stream's later work waits for all migrations and functions so far.
void order_after_migrations(ActiveStream& stream) noexcept;
// A stream is about to be destroyed: its id may become another one's.
void stream_ends(CUstream stream) noexcept;
void finish_migrations(CUcontext context) noexcept;
void finish_all_migrations() noexcept;
// Of those that nothing has waited for yet.
void finish_new_migrations() noexcept;

}  // namespace barcuda::guest::managed
