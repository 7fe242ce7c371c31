// SPDX-License-Identifier: Apache-2.0
#include "guest-allocator/driver/fence.h"

#include <unistd.h>

#include <cstdio>
#include <deque>
#include <thread>

#include "guest-allocator/client/command.h"
#include "guest-allocator/client/given_work.h"
#include "guest-allocator/client/id_table.h"
#include "guest-allocator/client/mutex.h"
#include "guest-allocator/client/patience.h"
#include "guest-allocator/driver/capture.h"
#include "guest-allocator/heap/heap.h"
#include "shm-device/sync.h"
#include "shm-device/trace.h"

namespace barcuda::guest {
namespace {

std::atomic<bool> prints{false};  // where the worker does not say it in its status page

// By context: one more than the work that had been posted, anywhere, when all of the context's was last known to be
// done.
IdTable<std::atomic<std::uint64_t>> idle;
// By stream: one more than the work that had been posted, anywhere, when it was last waited for; 0: never. A context's
// default stream has the context's id, which no stream has.
IdTable<std::atomic<std::uint64_t>> waited;

// Fences of the channel that some thread holds; what was last asked of each.
std::atomic<std::uint64_t> taken[BARCUDA_FENCES / 64];
std::uint64_t values[BARCUDA_FENCES];

// This thread's own, until it ends: its later waits (in destructors of the program) take one from the pool.
constinit thread_local int own_index = -1;
constinit thread_local bool ended = false;
struct OwnFence {
    ~OwnFence() {
        ended = true;
        if (own_index >= 0) taken[own_index / 64].fetch_and(~(1ull << own_index % 64), std::memory_order_release);
    }
};
int take_own_index() noexcept {
    static thread_local const OwnFence until_the_end;
    for (unsigned w = 0; own_index < 0 && w < std::size(taken); ++w)
        for (std::uint64_t bits = taken[w].load(std::memory_order_relaxed); ~bits && own_index < 0;) {
            const int b = __builtin_ctzll(~bits);
            if (taken[w].compare_exchange_weak(bits, bits | 1ull << b, std::memory_order_acquire))
                own_index = static_cast<int>(w * 64) + b;
        }
    return own_index;
}

// A fence for one wait.
class OneWait {
  public:
    OneWait() noexcept {
        const int i = ended ? -1 : own_index >= 0 ? own_index : take_own_index();
        if (i >= 0) {
            const Channel& channel = Client::current()->channel();
            word_ = reinterpret_cast<const unsigned long long*>(&channel.fences()[i]);
            offset_ = channel.offset + BARCUDA_FENCES_OFFSET + static_cast<std::uint64_t>(i) * 8;
            value_ = ++values[i];
        } else if ((pooled_ = take_fence(0))) {  // more threads wait than there are fences
            word_ = pooled_->word;
            offset_ = Client::current()->offset_of(word_);
            value_ = pooled_->asked.fetch_add(1, std::memory_order_relaxed) + 1;
        }
    }
    ~OneWait() {
        if (pooled_) recycle_fence(pooled_);
    }
    OneWait(const OneWait&) = delete;
    explicit operator bool() const noexcept { return word_; }
    CUresult operator()(CUstream stream) noexcept {
        const CUresult r = command<Op::write_fence>(stream, ext::Fence{offset_, value_});
        return r == CUDA_SUCCESS ? wait_until(*word_, value_) : r;
    }

  private:
    const unsigned long long* word_ = nullptr;  // null: the region is full as well
    std::uint64_t offset_ = 0, value_ = 0;
    Fence* pooled_ = nullptr;
};

// Fences lie in the heap's staging memory, 512 to a page. A recycled fence may still be pending: the oldest is
// looked at.
struct Pool {
    Mutex mutex;
    std::deque<Fence> all;
    std::deque<Fence*> recycled;
    unsigned long long* page = nullptr;
    unsigned used = 0;
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

Fence* take_fence(std::uint64_t order) noexcept {
    Pool& p = pool();
    std::lock_guard lock(p.mutex);
    // Not a fence that was recycled just now: another thread may still hold its address.
    if (p.recycled.size() > 64 && !p.recycled.front()->pending()) {
        Fence* f = p.recycled.front();
        p.recycled.pop_front();
        f->order = order;
        return f;
    }
    if (!p.page) p.page = static_cast<unsigned long long*>(heap::staging_alloc(512 * sizeof *p.page));
    if (!p.page) return nullptr;
    p.page[p.used] = 0;
    Fence& f = p.all.emplace_back(&p.page[p.used]);
    f.order = order;
    if (++p.used == 512) p.page = nullptr, p.used = 0;
    return &f;
}

void recycle_fence(Fence* f) noexcept {
    Pool& p = pool();
    std::lock_guard lock(p.mutex);
    if (f) p.recycled.push_back(f);
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
    return observe(fence) >= value ? CUDA_SUCCESS : wait_until(fence, value, Patience());
}
CUresult sleep_until(const unsigned long long& fence, unsigned long long value) noexcept {
    return observe(fence) >= value ? CUDA_SUCCESS : wait_until(fence, value, Patience(Waits::asleep));
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

bool idle_since_wait(CUstream stream) noexcept {
    stream = real(stream);
    const auto* seen = last_wait(stream);
    return seen && seen->load(std::memory_order_relaxed) == Client::current()->queue().work() + 1;
}

CUresult wait_for(CUstream stream) noexcept {
    Client* client = Client::get();
    if (!client) return CUDA_ERROR_NOT_INITIALIZED;
    stream = real(stream);  // what is remembered of a stream is not every thread's own
    if (capturing(stream)) return command<Op::cuStreamSynchronize>(stream);  // an error, and the driver's to name
    const std::uint64_t work = client->queue().work();
    auto* seen = last_wait(stream);
    if (seen && seen->load(std::memory_order_relaxed) == work + 1) return client->take_error();
    CUresult r = CUDA_ERROR_NOT_READY;
    if (OneWait fence; fence) r = fence(stream);
    else
        while (r == CUDA_ERROR_NOT_READY) r = command<Op::cuStreamSynchronize>(stream), std::this_thread::yield();
    if (r != CUDA_SUCCESS) return r;
    const CUresult error = finish_wait(stream, work);
    if (seen && error == CUDA_SUCCESS) seen->store(work + 1, std::memory_order_relaxed);
    return error;
}

CUresult wait_quietly(CUstream stream) noexcept {
    CUresult r = CUDA_ERROR_NOT_READY;
    if (OneWait fence; fence) r = fence(stream);
    else
        while (r == CUDA_ERROR_NOT_READY) r = unannounced<Op::cuStreamSynchronize>(stream), std::this_thread::yield();
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
        while ((r = command<Op::cuStreamSynchronize>(stream)) == CUDA_ERROR_NOT_READY && nothing_new())
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
