// SPDX-License-Identifier: Apache-2.0
#include "guest-allocator/driver/fence.h"

#include <unistd.h>

#include <cstdio>
#include <deque>
#include <optional>
#include <thread>
#include <utility>

#include "base/os/thread_end.h"
#include "base/trace.h"
#include "guest-allocator/client/command.h"
#include "guest-allocator/client/given_work.h"
#include "guest-allocator/client/id_table.h"
#include "guest-allocator/client/mutex.h"
#include "guest-allocator/client/patience.h"
#include "guest-allocator/driver/capture.h"
#include "guest-allocator/driver/managed.h"
#include "guest-allocator/heap/heap.h"
#include "shm-device/queue/sync.h"

namespace barcuda::guest {
namespace {

std::atomic<bool> prints{false};  // where the worker does not say it in its status page

// By context: when all its work was last known to be done, one more than the work that any context had been given.
IdTable<std::atomic<std::uint64_t>> idle;
// By stream: when it was last waited for, one more than the work that any stream had been given; 0: never. A context's
// default stream has the context's id, which no stream has.
IdTable<std::atomic<std::uint64_t>> waited;

// This thread's own.
constinit thread_local Fence* own = nullptr;
constinit os::ThreadEnd thread_end{[]() noexcept {
    if (!forked_after_init()) recycle_fence(std::exchange(own, nullptr));
}};
Fence* own_fence() noexcept {
    if (own) return own;
    thread_end.await();
    return own = take_fence(0, true);
}

// A fence for one wait.
class OneWait {
  public:
    OneWait() noexcept : fence_(forked_after_init() ? nullptr : own_fence()) {
        if (fence_) value_ = fence_->asked.fetch_add(1, std::memory_order_relaxed) + 1;
    }
    OneWait(const OneWait&) = delete;
    explicit operator bool() const noexcept { return fence_; }
    CUresult operator()(CUstream stream) noexcept {
        const std::uint64_t offset = Client::current()->offset_of(fence_->word);
        const CUresult r = command<Op::write_fence>(stream, ext::Fence{offset, value_});
        if (r == CUDA_SUCCESS) return wait_until(*fence_->word, value_);
        publish(*fence_->word, value_);  // the GPU will not write it
        return r;
    }

    bool brings(CUstream stream) const noexcept { return managed::fetch_ahead(stream, *fence_, value_); }
    void brought(bool done) const noexcept { managed::open_fetched(*fence_, value_, done); }

  private:
    Fence* fence_;  // null: the region is full, and so is the channel; or a forked child asks
    std::uint64_t value_ = 0;
};

// Fences lie in the heap's staging memory, page by page; where the region is full, in the channel.
constexpr unsigned page_words = 512, line_words = 8;
static_assert(BARCUDA_FENCES % page_words == 0);
struct Pool {
    Mutex mutex;
    std::deque<Fence> all;
    struct Recycled {
        Fence *oldest = nullptr, *newest = nullptr;
        unsigned count = 0;
    };
    Recycled apart, others;
    unsigned long long* page = nullptr;
    unsigned used = page_words;  // words of the page
    unsigned in_channel = 0;     // words of the channel that have been a page

    void recycle(Fence* f) noexcept {
        Recycled& its = f->apart ? apart : others;
        f->next = nullptr;
        (its.oldest ? its.newest->next : its.oldest) = f;
        its.newest = f;
        ++its.count;
    }
    static Fence* take_oldest(Recycled& from) noexcept {
        --from.count;
        return std::exchange(from.oldest, from.oldest->next);
    }
    // Null: there is no place any more.
    unsigned long long* new_page() noexcept {
        if (void* in_region = heap::staging_alloc(page_words * sizeof *page))
            return static_cast<unsigned long long*>(in_region);
        if (in_channel == BARCUDA_FENCES) return nullptr;
        auto* const fences = reinterpret_cast<unsigned long long*>(Client::current()->channel().fences());
        return fences + std::exchange(in_channel, in_channel + page_words);
    }
};
Pool& pool() {
    static Pool& p = *new Pool;  // never destroyed: programs record events in static destructors
    return p;
}

}  // namespace

void module_prints() noexcept { prints.store(true, std::memory_order_relaxed); }
bool may_print() noexcept {
    const std::uint32_t said = observe(Client::current()->status().prints);
    return said == BARCUDA_PRINTS_UNTOLD ? prints.load(std::memory_order_relaxed) : said != BARCUDA_PRINTS_NOT;
}

bool gpu_busy(CUcontext context) noexcept {
    Client* client = Client::current();
    if (!client) return false;
    const auto* seen = idle.of(context);
    return !seen || seen->load(std::memory_order_acquire) != client->queue().work() + 1;
}

void note_idle(CUcontext context, std::uint64_t work) noexcept {
    if (auto* seen = idle.of(context)) seen->store(work + 1, std::memory_order_release);
}

Fence* take_fence(std::uint64_t order, bool apart) noexcept {
    Pool& p = pool();
    std::lock_guard lock(p.mutex);
    Pool::Recycled& recycled = apart ? p.apart : p.others;
    // Not one that was recycled just now: another thread may still hold its address. The oldest may be pending still.
    constexpr unsigned rest = 64;
    for (unsigned tries = 4; recycled.count > rest && tries > 0; --tries) {
        Fence* const f = Pool::take_oldest(recycled);
        if (!f->pending()) {
            f->order = order;
            return f;
        }
        p.recycle(f);
    }
    const unsigned words = apart && !p.in_channel ? line_words : 1;  // of the channel's there are not many
    p.used = (p.used + words - 1) / words * words;
    if (!p.page || p.used == page_words) {
        p.page = p.new_page();
        p.used = 0;
    }
    if (!p.page) return nullptr;
    p.page[p.used] = 0;
    Fence& f = p.all.emplace_back(&p.page[p.used], apart);
    f.order = order;
    p.used += words;
    return &f;
}

void recycle_fence(Fence* f) noexcept {
    Pool& p = pool();
    std::lock_guard lock(p.mutex);
    if (f) p.recycle(f);
}

namespace {
CUresult wait_until(const unsigned long long& fence, unsigned long long value, Patience&& patience) noexcept {
    const trace::Slice slice("wait");
    for (Client& client = *Client::current(); observe(fence) < value; patience.wait(client))
        if (CUresult r = client.ended(); r != CUDA_SUCCESS) return r;
    return CUDA_SUCCESS;
}
}  // namespace

CUresult wait_until(const unsigned long long& fence, unsigned long long value) noexcept {
    return observe(fence) >= value ? CUDA_SUCCESS : wait_until(fence, value, Patience({&fence, value}));
}
CUresult sleep_until(const unsigned long long& fence, unsigned long long value) noexcept {
    return observe(fence) >= value ? CUDA_SUCCESS : wait_until(fence, value, Patience({&fence, value}, Waits::asleep));
}

namespace {
std::atomic<std::uint64_t>* last_wait(CUstream stream) noexcept {
    return stream ? waited.of(stream) : waited.of(current_context());
}
}  // namespace

namespace {
// All that the context was given until then is done.
std::uint64_t done_in(CUcontext context) noexcept {
    const auto* seen = idle.of(context);
    const std::uint64_t next = seen ? seen->load(std::memory_order_acquire) : 0;
    return next ? next - 1 : 0;
}
}  // namespace

bool may_be_busy(CUcontext context, CUstream stream) noexcept {
    const std::uint64_t given = given_work.of_stream(context, stream).load(std::memory_order_relaxed);
    if (given <= done_in(context)) return false;
    const auto* seen = stream ? waited.of(stream) : waited.of(context);
    return !seen || given >= seen->load(std::memory_order_relaxed);
}

bool unnamed_may_be_busy(CUcontext context) noexcept {
    const std::uint64_t done = done_in(context);
    return given_work.of_unnamed(context).load(std::memory_order_relaxed) > done ||
           given_work.out_of_memory.load(std::memory_order_relaxed) > done;
}

bool is_idle(CUcontext context, CUstream stream) noexcept {
    return open_captures.load(std::memory_order_relaxed) == 0 && !unnamed_may_be_busy(context) &&
           !may_be_busy(context, stream);
}

bool idle_since_wait(CUstream stream) noexcept {
    stream = real(stream);
    const auto* seen = last_wait(stream);
    return seen && seen->load(std::memory_order_relaxed) == Client::current()->queue().work() + 1;
}

namespace {
// The managed memory that comes with a wait.
class Brought {
  public:
    Brought(CUstream stream, const OneWait& wait) noexcept : wait_(wait), any_(wait.brings(stream)) {}
    ~Brought() {
        if (any_) [[unlikely]]
            wait_.brought(done);
    }
    Brought(const Brought&) = delete;
    bool done = false;  // the wait is over, without an error

  private:
    const OneWait& wait_;
    const bool any_;
};

template <bool programs> CUresult wait_for_stream(CUstream stream) noexcept {
    Client* client = Client::get();
    if (!client) return CUDA_ERROR_NOT_INITIALIZED;
    stream = real(stream);  // what is remembered of a stream is not every thread's own
    if (capturing(stream)) return command<Op::cuStreamSynchronize>(stream);  // an error, and the driver's to name
    std::uint64_t work = client->queue().work();
    auto* seen = last_wait(stream);
    if (seen && seen->load(std::memory_order_relaxed) == work + 1) return client->take_error();
    CUresult r = CUDA_ERROR_NOT_READY;
    OneWait fence;
    std::optional<Brought> brought;
    if (programs && fence && managed::exists()) [[unlikely]] {
        brought.emplace(stream, fence);
        work = client->queue().work();
    }
    if (fence) r = fence(stream);
    else
        while (r == CUDA_ERROR_NOT_READY) {
            r = command<Op::cuStreamSynchronize>(stream);
            std::this_thread::yield();
        }
    if (r != CUDA_SUCCESS) return r;
    const CUresult error = finish_wait(stream, work);
    if (seen && error == CUDA_SUCCESS) seen->store(work + 1, std::memory_order_relaxed);
    if (brought) brought->done = error == CUDA_SUCCESS;
    return error;
}
}  // namespace

CUresult wait_for(CUstream stream) noexcept { return wait_for_stream<false>(stream); }
CUresult synchronize(CUstream stream) noexcept { return wait_for_stream<true>(stream); }

CUresult wait_quietly(CUstream stream) noexcept {
    CUresult r = CUDA_ERROR_NOT_READY;
    if (OneWait fence; fence) r = fence(stream);
    else
        while (r == CUDA_ERROR_NOT_READY) {
            r = bare_command<Op::cuStreamSynchronize>(stream);
            std::this_thread::yield();
        }
    const CUresult ended = r == CUDA_SUCCESS ? Client::current()->ended() : r;
    // After a fault of the GPU a fence is written as well.
    if (ended != CUDA_SUCCESS) return ended;
    return static_cast<CUresult>(observe(Client::current()->status().context_error));
}

// A driver shows what kernels printed when *it* synchronizes. It may take the stream for busy for a moment longer than
// the fence, which the GPU writes. But where more work has been posted by now, the wait for that work shows the output.
CUresult finish_wait(CUstream stream, std::uint64_t work) noexcept {
    const auto nothing_new = [=] {
        return Client::current()->queue().work() == work && open_captures.load(std::memory_order_relaxed) == 0;
    };
    CUresult r = CUDA_SUCCESS;
    if (may_print()) {
        // The worker may find out meanwhile that nothing prints.
        while ((r = command<Op::cuStreamSynchronize>(stream)) == CUDA_ERROR_NOT_READY && nothing_new() && may_print())
            std::this_thread::yield();
        if (r == CUDA_ERROR_NOT_READY) r = CUDA_SUCCESS;
        show_output();
    }
    const CUresult posted = Client::current()->take_error();
    return r == CUDA_SUCCESS ? posted : r;
}

namespace {
template <class Show> void collect(unsigned errors, Show show) noexcept {
    char text[4096];
    for (std::uint64_t used = sizeof text; used == sizeof text; show(text, used))
        if (command<Op::take_output>(errors, static_cast<char*>(text), sizeof text, &used) != CUDA_SUCCESS) return;
}
}  // namespace

void show_output() noexcept {  // in order with what the program itself prints
    collect(0, [](const char* text, std::size_t bytes) { std::fwrite(text, 1, bytes, stdout); });
}

void show_assert() noexcept {  // any call may learn of it, in a malloc too: nothing is allocated here
    collect(1, [](const char* text, std::size_t bytes) {
        if (write(STDERR_FILENO, text, bytes) < 0) return;
    });
}

}  // namespace barcuda::guest
