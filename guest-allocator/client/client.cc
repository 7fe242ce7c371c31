// SPDX-License-Identifier: Apache-2.0
#include "guest-allocator/client/client.h"

#include <stdlib.h>
#include <string.h>

#include <algorithm>
#include <iterator>
#include <new>
#include <utility>

#include "base/os/output.h"
#include "guest-allocator/client/activity.h"
#include "guest-allocator/client/command.h"
#include "guest-allocator/client/descriptors.h"
#include "guest-allocator/client/device_window.h"
#include "guest-allocator/client/host_rows.h"
#include "guest-allocator/client/patience.h"
#include "guest-allocator/client/watched.h"
#include "shm-device/cuda/visible_devices.h"
#include "shm-device/queue/sync.h"
#include "shm-device/queue/wire.h"
#include "shm-device/region/status.h"

std::atomic<unsigned> barcuda_watched{1};  // until cuInit

namespace barcuda::guest {

std::atomic<int> open_captures{0};
std::atomic<bool> graphs_allocate{false};
std::atomic<int> lost_context{0};

namespace {

Mutex connecting;
bool tried = false;
Error reason;

[[gnu::format(printf, 1, 0)]] void tell(const char* format, const char* text) noexcept {
    char line[500];
    const int n = snprintf(line, sizeof line, format, text);
    if (n > 0) os::write_error(line, std::min<std::size_t>(static_cast<std::size_t>(n), sizeof line - 1));
}

// From now on every call that looks at a context hears it (driver/admission.h).
CUresult lose_context(CUresult fault) noexcept {
    int none = 0;
    if (lost_context.compare_exchange_strong(none, fault, std::memory_order_relaxed)) watch_calls();
    return fault;
}

// Ids that live: a bit each. Handles that the host gave are not among them.
std::atomic<std::uint64_t> live[wire::most_ids / 64];

}  // namespace

std::atomic<Client*> Client::ready_{nullptr};
std::atomic<bool> Client::initialized_{false};

const Error& Client::why() noexcept { return reason; }

Client* Client::get() noexcept {
    if (forked_after_init()) return nullptr;
    if (Client* c = current()) return c;
    heap::Inside guard;  // what connecting allocates is ordinary memory
    std::lock_guard lock(connecting);
    if (tried) return current();
    tried = true;
    alignas(
        Client) static char room[sizeof(Client)];  // never destroyed: the program's own destructors may still need it
    Client* c = new (room) Client;
    heap::tell_of_forks(*c);  // half a connection is the parent's as well
    if ((reason = c->connect())) {
        heap::tell_of_no_forks();
        return nullptr;
    }
    ready_.store(c, std::memory_order_release);
    return c;
}

Client* Client::initialize() noexcept {
    Client* const c = get();
    if (!c || initialized_.exchange(true, std::memory_order_acq_rel)) return c;
    stop_watching_calls();
    if (const auto* recorder = barcuda_recorder.load(std::memory_order_acquire)) recorder->initialized();
    return c;
}

Error Client::connect() noexcept {
    if (Error e = region_.open(nullptr)) return e;
    keep_descriptor(region_.fd());
    if (!region_.served())
        return error(Error::not_ready, 0, "%s: no bridge serves this region; start barcuda-bridge on the host",
                     region_.path());
    std::uint64_t rows_hash = 0;
    if (Error e = host_rows::learn(region_, rows_hash)) return e;
    if (Error e = choose_devices()) return e;
    if (Error e = region_.open_channel(channel_)) return e;
    const std::uint64_t base = shape().base, end = base + shape().size;  // in the window, or above it
    if (static bool reserved = false; !std::exchange(reserved, true)) {  // a forked child has its parent's
        windows = shape().windows;
        reserve_window(windows.begin, std::min(base, windows.end));
        reserve_window(end, windows.end);
    }
    introduce(channel_.client());
    channel_.client().rows_hash = rows_hash;
    channel_.client().base = region_.properties().base;
    memcpy(channel_.client().devices, devices_, sizeof devices_);
    publish(channel_.client().device_count, static_cast<std::uint32_t>(device_count_));  // WORD
    bell_.open(region_.door(), channel_);  // now the bridge looks for new clients
    alignas(Queue) static char room[sizeof(Queue)];
    queue_ = new (room) Queue(*this, channel_);
    return {};
}

// The worker's driver shows these devices and no others, in this order (host-bridge/bridge): their numbers are the same
// here and there.
Error Client::choose_devices() noexcept {
    const char* const list = secure_getenv("CUDA_VISIBLE_DEVICES");
    std::vector<DeviceId> ids;
    for (unsigned i = 0; i < region_.device_count(); ++i)
        ids.push_back({region_.devices()[i].uuid, region_.devices()[i].pci_bus_id});
    const VisibleDevices seen = visible_devices(ids, list, secure_getenv("CUDA_DEVICE_ORDER"));
    for (const int number : seen.numbers) devices_[device_count_++] = static_cast<unsigned char>(number);
    if (device_count_ != 0) return {};
    Error none = error(Error::no_device, 0, "%s", list ? "" : "the bridge shows no GPU");
    if (!list) return none;
    const bool meant = seen.stopped_at.empty() || seen.stopped_at[0] == '-';  // the list is empty, or -1
    if (meant) return none;
    return error(Error::no_device, 0,
                 "CUDA_VISIBLE_DEVICES=%.100s: %s %.60s%s; `barcuda doctor` lists the GPUs that there are", list,
                 seen.repeated ? "it names" : "there is no", seen.stopped_at.c_str(), seen.repeated ? " twice" : "");
}

const barcuda_device* Client::device(int ordinal) const {
    return ordinal >= 0 && ordinal < device_count_ ? &region_.devices()[devices_[ordinal]] : nullptr;
}

void Client::complain(const char* text) noexcept {
    if (!complained_.test_and_set()) tell("barcuda: the GPU is lost: %s\n", text);
}

void Client::complain_of_mapping(const char* text) noexcept {
    if (complained_of_mapping_.test_and_set()) return;
    tell("barcuda: this process gets no more memory of the region (it keeps what it has, and the GPU continues): %s\n",
         text);
}

CUresult Client::ended() noexcept {
    if (forked_after_init()) return CUDA_ERROR_NOT_INITIALIZED;  // what is waited for here comes to the parent
    barcuda_status& s = status();
    if (observe(s.state) <= BARCUDA_STATE_READY) return CUDA_SUCCESS;
    char message[sizeof s.message];
    memcpy(message, s.message, sizeof message);
    message[sizeof message - 1] = 0;
    complain(message);
    // A worker that ends behind a fault has said which.
    if (const auto fault = static_cast<CUresult>(observe(s.context_error)); fault != CUDA_SUCCESS)
        return lose_context(fault);
    const auto error = static_cast<CUresult>(observe(s.fatal_error));
    return error == CUDA_SUCCESS ? CUDA_ERROR_DEVICE_UNAVAILABLE : error;
}

CUresult Client::take_error() noexcept {
    if (CUresult r = ended(); r != CUDA_SUCCESS) return r;
    barcuda_status& s = status();
    if (const auto sticky = static_cast<CUresult>(observe(s.context_error)); sticky != CUDA_SUCCESS) {
        if (sticky == CUDA_ERROR_ASSERT) show_assert();
        log_failure("the GPU", sticky);
        return lose_context(sticky);
    }
    const std::uint64_t failures = observe(s.posted_count);
    if (failures_seen_.exchange(failures, std::memory_order_relaxed) == failures) return CUDA_SUCCESS;
    const auto error = static_cast<CUresult>(observe(s.posted_error));
    log_failure(host_rows::name_at(s.posted_op), error);
    return error;
}

namespace {
Pace pace(Waits waits) noexcept {
    Client* client = Client::current();
    const bool own_kernel = client && client->region().properties().own_kernel;
    static const bool few = os::processors() <= 2;
    if (client && observe(client->status().state) == BARCUDA_STATE_NEW) waits = Waits::unserved;
    return pace_of(waits, few, own_kernel);
}
}  // namespace

Patience::Patience(Waits waits) noexcept : waiter_(pace(waits)) {}

void Patience::Woken::sleep(std::uint64_t nanoseconds) noexcept {
    Client& client = *Client::current();
    if (announced) {
        client.bell().sleep(seen, nanoseconds);
        seen = client.bell().seen();
        return;
    }
    announced = true;
    seen = client.bell().seen();
    client.queue().announce();
}

Patience::~Patience() {
    if (place_) [[unlikely]]
        Client::current()->queue().crowd().leave(*place_);
    if (waiter_.with().announced) Client::current()->queue().retract();
}

// Past the spin of a wait, which most never are.
void Patience::turn_in_crowd(Client& client) noexcept {
    constexpr std::uint64_t second = 1'000'000'000;
    Crowd& crowd = client.queue().crowd();
    if (!place_) {
        place_ = crowd.join(until_);
        awake_ = place_ && place_->is_awake();
        if (!place_) waiter_.turn();
    } else if (place_->is_called()) {
        crowd.join_again(*place_);
        awake_ = place_->is_awake();
    } else if (place_->is_awake()) {
        if (!std::exchange(awake_, true)) waiter_.begin_again();
        waiter_.turn();
        client.queue().look();
        crowd.look(*place_);
    } else if (!crowd.sleep(*place_, second)) {
        note_looks(client, 10);
    }
}

thread_local constinit LongWait* LongWait::current_ = nullptr;

void LongWait::look(unsigned looks) noexcept {
    static std::atomic_flag told;
    if (current_ && (current_->looks_ += looks) >= 100 && !told.test_and_set()) log_line("%s", current_->text_);
}

void Patience::note_looks(Client& client, unsigned looks) noexcept {
    static std::atomic_flag told;
    if (observe(client.status().paused) == BARCUDA_PAUSED_NO) return LongWait::look(looks);
    if ((paused_ += looks) >= 100 && !told.test_and_set())
        log_line("paused by the host (barcuda pause): the program waits until the host resumes it (barcuda resume)");
}

void Patience::look_for_host(Client& client) noexcept {
    note_looks(client, 1);
    client.queue().look();
    constexpr unsigned long_silent = 100, long_unanswered = 50;
    // A bridge that leaves its clients paused, and ends none of them, has written them to a disk.
    const auto is_suspended = [&client] {
        return observe(client.status().paused) != BARCUDA_PAUSED_NO && client.region_.left();
    };
    if (is_suspended()) {
        silent_ = 0;  // the next bridge has ten seconds of its own
        return;
    }
    const std::uint64_t now = client.region_.heartbeat();
    silent_ = now == heartbeat_ ? silent_ + 1 : 0;
    heartbeat_ = now;
    // Looks are 100 ms apart: ten seconds without a beat, while even a busy host beats a few times. A client that is
    // not served yet loses less, and waits less.
    const bool new_here = observe(client.status().state) == BARCUDA_STATE_NEW;
    if (client.region_.served() && silent_ < (new_here ? long_unanswered : long_silent)) return;
    if (is_suspended()) return;  // just now
    end_session(client.status(), BARCUDA_STATE_GONE, CUDA_ERROR_DEVICE_UNAVAILABLE,
                "the bridge does not answer any more (it was killed, or its host has stopped)");
}

// ---- ids ------------------------------------------------------------------------------------------------------------

std::uint64_t Client::new_id() noexcept {
    std::lock_guard lock(ids_mutex_);
    const std::uint64_t id = free_count_ ? free_ids_[--free_count_] : next_id_ < wire::most_ids ? next_id_++ : 0;
    if (id) live[id / 64].fetch_or(1ull << id % 64, std::memory_order_relaxed);
    return id;
}

void Client::free_id(std::uint64_t id) noexcept {
    if (id >= wire::most_ids || !knows(id)) return;
    std::lock_guard lock(ids_mutex_);
    live[id / 64].fetch_and(~(1ull << id % 64), std::memory_order_relaxed);
    if (free_count_ == free_room_) {
        const std::size_t room = free_room_ ? free_room_ * 2 : 256;
        void* grown = realloc(free_ids_, room * sizeof *free_ids_);
        if (!grown) return;  // the id is never used again: there are four million
        free_ids_ = static_cast<std::uint32_t*>(grown);
        free_room_ = room;
    }
    free_ids_[free_count_++] = static_cast<std::uint32_t>(id);
}

bool Client::knows(std::uint64_t id) const noexcept {
    if (id <= 2 || id >= wire::given) return true;  // null and the default streams; what the host gave, the host knows
    return id < wire::most_ids && live[id / 64].load(std::memory_order_relaxed) >> id % 64 & 1;
}

// ---- heap::ExtentSource ---------------------------------------------------------------------------------------------

heap::Extent Client::window() const noexcept {
    const std::uint64_t start = shape().extents_offset;
    return {static_cast<std::byte*>(region_.at(start)), shape().size - start};
}

// Calls never overlap (heap/extents.h). What answers is the host, whatever its GPU does: host-bridge/worker/supply.h.
bool Client::ask_for_extent(std::size_t bytes, std::uint64_t& offset, std::uint64_t& granted) noexcept {
    full_.store(false, std::memory_order_relaxed);
    if (ended() != CUDA_SUCCESS) return false;
    barcuda_supply& page = channel_.supply();
    const std::uint64_t request = observe(page.asked) + 1;
    page.bytes = bytes;
    publish(page.asked, request);  // WORD
    bell_.kick_supply();
    for (Patience patience; observe(page.answered) != request; patience.wait(*this))
        if (ended() != CUDA_SUCCESS) return false;
    offset = page.offset;
    granted = page.granted;
    full_.store(page.error != CUDA_SUCCESS, std::memory_order_relaxed);
    return page.error == CUDA_SUCCESS;
}

bool Client::grant(std::size_t bytes, heap::Extent& out) noexcept {
    // In a forked child some may lie where it has its parent's blocks still, which the parent has given back since.
    // They are held until one is found that does not.
    struct Aside {
        std::uint64_t offset, bytes;
    } aside[128];
    std::size_t held = 0;
    std::uint64_t offset = 0, granted = 0;
    bool got;
    while ((got = ask_for_extent(bytes, offset, granted)) && heap::inherited(region_.at(offset), granted)) {
        aside[held++] = {offset, granted};
        if (held == std::size(aside)) {
            got = false;
            break;
        }
    }
    while (held > 0) {
        --held;
        command<Op::release>(aside[held].offset, aside[held].bytes);
    }
    if (!got) return false;
    void* at = nullptr;
    const Error e = region_.map_extent(offset, granted, &at);
    keep_descriptor(region_.fd());  // it may be another one now
    if (e) {
        command<Op::release>(offset, granted);
        complain_of_mapping(e.text);
        return false;
    }
    out = {static_cast<std::byte*>(at), granted};
    return true;
}

// After cuInit CUDA does not work in the child, as it does not natively: its calls say so, and no lock of the parent's
// is waited for (mutex.h). Before, nothing is connected but the heap, and nothing is known to the layers above: the
// child becomes a client of its own when it uses CUDA. The heap calls it, for fork() and _Fork() alike.
void Client::forked() noexcept {
    trace::forked();
    if (initialized_.load(std::memory_order_relaxed)) {
        if (!guest::forked.exchange(true, std::memory_order_relaxed)) watch_calls();
        return;
    }
    if (ready_.exchange(nullptr, std::memory_order_relaxed)) {  // else another thread was connecting: who knows how far
        region_.leave_channel(channel_);
        region_.close();
    }
    keep_descriptor(-1);
    new (&connecting) Mutex;
    tried = false;
    reason = {};
}

void Client::release(heap::Extent extent) noexcept {
    const std::uint64_t offset = region_.offset_of(extent.address);
    region_.unmap_extent(offset, extent.bytes);
    command<Op::release>(offset, extent.bytes);
}

std::byte* Client::alias(heap::Extent part) noexcept {
    void* at = nullptr;
    if (region_.map_again(region_.offset_of(part.address), part.bytes, &at)) return nullptr;
    return static_cast<std::byte*>(at);
}

bool Client::renew(heap::Extent pages) noexcept {
    return !region_.map_pages(region_.offset_of(pages.address), pages.bytes);
}

}  // namespace barcuda::guest

barcuda::heap::ExtentSource* barcuda::heap::connect() noexcept { return guest::Client::get(); }
