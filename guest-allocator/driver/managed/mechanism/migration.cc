// SPDX-License-Identifier: Apache-2.0
// migration.cc: copies between the region's pages and the device. A context's migrations have a stream of their own.
// The host side never holds blocks that the device still works on, so a copy to the device need not wait for earlier
// work of any stream: it starts at once, and the streams' later work waits for it. Where nothing else is at work, it is
// in the stream whose work wants the blocks (Ride): on the GPU, work that waits for another stream begins later.
//
// A driver maps the streams of a context to few queues of the hardware, and an operation that waits for a function of
// the program's blocks everything behind it in its queue. A migration that such a function waits for must not be there.
// So from a program's first function on, its migrations use a context of the library's own. That context has its own
// queues, and nothing in it ever waits for the program's work: the CPU has waited already for whatever a migration must
// follow.
#include "guest-allocator/driver/managed/mechanism/migration.h"

#include <algorithm>
#include <utility>

#include "guest-allocator/client/command.h"
#include "guest-allocator/driver/capture.h"
#include "guest-allocator/driver/context.h"
#include "guest-allocator/driver/fence.h"
#include "guest-allocator/driver/host_function.h"
#include "guest-allocator/driver/managed/state/state.h"
#include "guest-allocator/driver/streams.h"
#include "guest-allocator/heap/statistics.h"

namespace barcuda::guest::managed {
namespace {

// What of these blocks is copied: copy(device address, alias, bytes), until one fails.
template <class Copy> CUresult each_part(const Range& range, const Run& run, Copy copy) {
    const std::uintptr_t begin = range.start(run), end = begin + range.bytes(run);
    CUresult r = CUDA_SUCCESS;
    for (const Range::Part& p : range.parts) {
        const std::uintptr_t first = std::max(p.begin, begin), last = std::min(p.end, end);
        if (first < last && r == CUDA_SUCCESS) r = copy(first, range.alias + (first - range.begin), last - first);
    }
    return r;
}

bool make_event(CUevent& event) {
    return bare_command<Op::cuEventCreate>(&event, unsigned{CU_EVENT_DISABLE_TIMING}) == CUDA_SUCCESS;
}

// Migrations use this context from now on; they are ordered after the earlier ones.
bool use_context(MigrationStream& m, CUcontext context) {
    const InContext in(context);
    CUstream stream = nullptr;
    CUevent event = nullptr;
    if (bare_command<Op::cuStreamCreateWithPriority>(&stream, unsigned{CU_STREAM_NON_BLOCKING}, 0) != CUDA_SUCCESS ||
        !make_event(event))
        return false;
    if (m.stream) {
        bare_command<Op::cuStreamWaitEvent>(stream, m.last_migration.event, 0u);
        bare_command<Op::cuEventRecordWithFlags>(event, stream, 0u);
        const InContext before(m.context);
        bare_command<Op::cuStreamDestroy_v2>(m.stream);
        bare_command<Op::cuEventDestroy_v2>(m.last_migration.event);
        m.sent_in = nullptr;
    }
    m.context = context;
    m.stream = stream;
    m.last_migration.event = event;
    return true;
}

// Copies are posted, and no caller would see that one has failed. So one byte is read first, by a call that returns its
// error.
bool reads_a_byte(const MigrationStream& m, CUdeviceptr address) {
    const InContext in(m.context);
    std::byte read{};
    CUresult r = CUDA_ERROR_NOT_READY;
    while (r == CUDA_ERROR_NOT_READY)
        if (r = wait_quietly(m.stream); r == CUDA_SUCCESS)
            r = bare_command<Op::copy_out>(static_cast<void*>(&read), address, sizeof read, m.stream);
    return r == CUDA_SUCCESS;
}

// The migration stream's next work follows what went to the device in a stream of the program's.
void follow_rides(MigrationStream& m) {
    const CUstream ridden = std::exchange(m.sent_in, nullptr);
    if (ridden && !guest::is_idle(m.context, real(ridden)))
        bare_command<Op::cuStreamWaitEvent>(m.stream, m.last_migration.event, 0u);
}

CUresult copy_to_device(const Range& range, const Run& run, CUstream stream) {
    return each_part(range, run, [&](CUdeviceptr there, std::byte* here, std::size_t bytes) {
        heap::statistics.managed_to_device.add(bytes);
        return bare_command<Op::cuMemcpyHtoDAsync_v2>(there, static_cast<const void*>(here), bytes, stream);
    });
}

}  // namespace

MigrationStreams& migration_streams() noexcept {
    static auto& all = *new MigrationStreams;  // never destroyed, as the state is not
    return all;
}

MigrationStream* migration_stream(CUcontext context) noexcept {
    MigrationStream& m = migration_streams()[context];
    if (!m.order) {
        const InContext in(context);
        CUevent function = nullptr, order = nullptr;
        if (!make_event(function) || !make_event(order)) return nullptr;
        m.last_function.event = function;
        m.order = order;
    }
    if (host_functions_given() && !std::exchange(m.own_context_tried, true)) {
        const CUcontext own = make_own_context(device_of(context));
        if (own && !use_context(m, own)) end_own_context(own);
        if ((!own || m.context != own) && logs_debug())
            log_line("managed memory has no context of its own to move in: a function in a stream may wait forever");
    }
    return m.stream || use_context(m, context) ? &m : nullptr;
}

// If a driver keeps a context from another one's memory on the same device, migrations stay in the program's.
MigrationStream* migration_stream_for(const Range& range) noexcept {
    MigrationStream* const m = migration_stream(range.context);
    if (!m || m->context == range.context || m->reaches[range.of_variables]) return m;
    if (range.parts.empty()) return m;
    const CUdeviceptr some = range.parts.front().begin;
    if ((m->reaches[range.of_variables] = reads_a_byte(*m, some))) return m;
    if (logs_debug()) log_line("managed memory moves in the program's context: another one does not reach it");
    const CUcontext own = m->context;
    if (!use_context(*m, range.context)) return m;
    end_own_context(own);
    return m;
}

void end_migration_context(CUcontext context) noexcept {
    const auto at = migration_streams().find(context);
    if (at == migration_streams().end() || !at->second.stream || at->second.context == context) return;
    MigrationStream& m = at->second;
    finish_migrations(context);
    end_own_context(m.context);
    m.context = nullptr;
    m.stream = nullptr;
    m.last_migration = {};
    m.own_context_tried = false;
    std::ranges::fill(m.reaches, false);
}

// A program with functions in streams has migrations in a context of their own. A capture would take the copies for a
// part of its graph; or the legacy stream would refuse them, while a stream that it waits for captures.
Ride::Ride(ActiveStream& stream) noexcept {
    const CUstream itself = real(stream.stream);
    if (host_functions_given() || (itself && context_of(itself) != stream.context)) return;
    const MigrationStream* const m = migration_stream(stream.context);
    if (!m || m->context != stream.context) return;
    no_capture_begins_ = hold_captures();
    if (all_is_idle(stream.context)) stream_ = &stream;
    else no_capture_begins_.unlock();
}

bool write_back(const Range& range, const Run& run, const Ride& ride) noexcept {
    if (ride.takes(range)) {
        const InContext in(range.context);
        order_after_migrations(ride.stream());  // each is ordered after the one before
        return copy_to_device(range, run, ride.stream().stream) == CUDA_SUCCESS;
    }
    MigrationStream* const m = migration_stream_for(range);
    if (!m) return false;
    const InContext in(m->context);
    follow_rides(*m);
    return copy_to_device(range, run, m->stream) == CUDA_SUCCESS;
}

// The mark is behind the copies alone, not behind the work that wants them: other streams wait for no more than that.
void begin_epoch(const Range& range, const Ride& ride) noexcept {
    const bool rides = ride.takes(range);
    MigrationStream* const m = rides ? &migration_streams()[range.context] : migration_stream(range.context);
    const InContext in(m->context);
    bare_command<Op::cuEventRecordWithFlags>(m->last_migration.event, rides ? ride.stream().stream : m->stream, 0u);
    m->last_migration.epoch = state().epochs.begin();
    m->sent_in = rides ? ride.stream().stream : nullptr;
    if (rides) ride.stream().epoch = m->last_migration.epoch;
}

CUresult post_fetch(const Range& range, const Run& run, CUstream stream) noexcept {
    return each_part(range, run, [&](CUdeviceptr there, std::byte* here, std::size_t bytes) {
        heap::statistics.managed_to_host.add(bytes);
        return bare_command<Op::cuMemcpyDtoHAsync_v2>(static_cast<void*>(here), there, bytes, stream);
    });
}

bool fetch_now(const Range& range, const Run& run) noexcept {
    MigrationStream* const m = migration_stream_for(range);
    if (!m) return false;
    const InContext in(m->context);
    follow_rides(*m);
    return post_fetch(range, run, m->stream) == CUDA_SUCCESS && wait_quietly(m->stream) == CUDA_SUCCESS;
}

ActiveStream& active_stream(CUstream real_stream) noexcept {
    const CUcontext its = real_stream ? context_of(real_stream) : nullptr;
    return state().epochs.use(real_stream, its ? its : current_context());
}

bool is_idle(const ActiveStream& stream) noexcept { return guest::is_idle(stream.context, real(stream.stream)); }

void order_after_migrations(ActiveStream& stream) noexcept {
    if (stream.epoch == state().epochs.now()) return;
    const InContext in(stream.context);
    for (const auto& [context, m] : migration_streams())
        for (const MigrationStream::Mark& mark : {m.last_migration, m.last_function})
            if (mark.epoch > stream.epoch) bare_command<Op::cuStreamWaitEvent>(stream.stream, mark.event, 0u);
    stream.epoch = state().epochs.now();
}

void finish_migrations(CUcontext context) noexcept {
    const auto at = migration_streams().find(context);
    if (at == migration_streams().end() || !at->second.stream) return;
    MigrationStream& m = at->second;
    const InContext in(m.context);
    follow_rides(m);
    const std::uint64_t last = m.last_migration.epoch;
    if (wait_quietly(m.stream) == CUDA_SUCCESS) m.finished = std::max(m.finished, last);
}

void stream_ends(CUstream stream) noexcept {
    for (auto& [context, m] : migration_streams()) {
        if (m.sent_in != stream) continue;
        const InContext in(m.context);
        follow_rides(m);
    }
}

void finish_all_migrations() noexcept {
    for (const auto& [context, m] : migration_streams()) finish_migrations(context);
}

void finish_new_migrations() noexcept {
    for (const auto& [context, m] : migration_streams())
        if (m.last_migration.epoch > m.finished) finish_migrations(context);
}

}  // namespace barcuda::guest::managed
