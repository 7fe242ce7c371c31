// SPDX-License-Identifier: Apache-2.0
// variables.cc: __managed__ variables. The driver keeps such a variable where the code of kernels names it, in the
// worker's process, out of the guest's reach. The program gets a mirror of it in the region instead. Before a stream
// gets kernels to run, the words of the mirror that the CPU has written go to the variable; behind them, in the
// stream's order, the words of the variable that kernels have written come to the mirror. `known` is what both sides
// had when they last agreed: it says who has written. A kernel that is given a pointer to the mirror gets one to the
// variable.
#include "guest-allocator/driver/managed/managed.h"

#include <string.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "guest-allocator/client/command.h"
#include "guest-allocator/client/mutex.h"
#include "guest-allocator/driver/capture.h"
#include "guest-allocator/driver/copy.h"
#include "guest-allocator/driver/export.h"
#include "guest-allocator/driver/fence.h"
#include "guest-allocator/driver/streams.h"
#include "guest-allocator/heap/heap.h"

namespace barcuda::guest::managed {
namespace {

struct Mirror {
    CUlibrary library = nullptr;
    std::string name;
    std::size_t bytes = 0;
    std::byte* here = nullptr;  // in the region
    std::vector<std::byte> known;
    CUdeviceptr there = 0;  // 0: to be asked again
    bool touched = false;   // by work that may still be under way
    // What streams bring may come in another order than they fetched it. So where two were on their way at once, the
    // variable is read again at the next wait for a stream; and nothing that was asked for before that look
    // counts.
    std::uint64_t asked = 0, arrived = 0, looked = 0;
    bool mixed = false;

    ~Mirror() { heap::pinned_free(here); }
    // Calls run(offset, bytes) for each run of bytes of `now` that are not as known.
    template <class F> void changes(const std::byte* now, F run) const {
        constexpr std::size_t step = 8;
        for (std::size_t i = 0; i < bytes; i += step) {
            const std::size_t start = i;
            while (i < bytes && memcmp(now + i, known.data() + i, std::min(step, bytes - i))) i += step;
            // By the byte at both ends: its neighbours may be another's.
            std::size_t first = start, last = std::min(i, bytes);
            while (first < last && now[first] == known[first]) ++first;
            while (last > first && now[last - 1] == known[last - 1]) --last;
            if (first < last) run(first, last - first);
        }
    }
};
using Shared = std::shared_ptr<Mirror>;

Mutex mutex;  // taken last: nothing is posted under it
std::vector<Shared>& mirrors() {
    static auto& list = *new std::vector<Shared>;  // never destroyed: programs launch in static destructors
    return list;
}
std::vector<Shared> all() {
    std::lock_guard lock(mutex);
    return mirrors();
}

// Where the worker has it. The address may change with its context.
CUresult locate(Mirror& m, CUdeviceptr& there) {
    if (std::lock_guard lock(mutex); (there = m.there)) return CUDA_SUCCESS;
    std::size_t bytes = 0;
    const CUresult r = command<Op::cuLibraryGetManaged>(&there, &bytes, m.library, m.name.c_str());
    if (r != CUDA_SUCCESS) return r;
    std::lock_guard lock(mutex);
    if (m.bytes && m.bytes != bytes) return CUDA_ERROR_INVALID_VALUE;
    return m.there = there, m.bytes = bytes, CUDA_SUCCESS;
}

void send(const Shared& m, CUstream stream) {
    struct Run {
        std::size_t at;
        std::vector<std::byte> bytes;
    };
    std::vector<Run> runs;
    CUdeviceptr there = 0;
    if (locate(*m, there) != CUDA_SUCCESS) return;
    {
        std::lock_guard lock(mutex);
        m->changes(m->here, [&](std::size_t at, std::size_t n) {
            runs.push_back({at, {m->here + at, m->here + at + n}});
        });
        for (const Run& run : runs) memcpy(m->known.data() + run.at, run.bytes.data(), run.bytes.size());
    }
    for (const Run& run : runs)
        for (std::size_t sent = 0, n; sent < run.bytes.size(); sent += n) {
            n = std::min(run.bytes.size() - sent, most_inline_bytes);
            command<Op::copy_in>(there + run.at + sent, static_cast<const void*>(run.bytes.data() + sent), n, stream);
        }
}

// What the variable was, behind the kernels of a stream. Under `mutex`.
void take_in(Mirror& m, const std::byte* fetched) {
    m.changes(fetched, [&](std::size_t at, std::size_t n) {
        memcpy(m.here + at, fetched + at, n);
        memcpy(m.known.data() + at, fetched + at, n);
    });
}
struct Fetched {
    Shared mirror;
    std::byte* stage;
    std::uint64_t number;
};
void arrived(void* data) {  // in the stream's order
    const std::unique_ptr<Fetched> f(static_cast<Fetched*>(data));
    Mirror& m = *f->mirror;
    if (std::lock_guard lock(mutex); true) {
        ++m.arrived;
        if (f->number > m.looked) take_in(m, f->stage);
        else m.mixed = true;
    }
    heap::staging_free(f->stage);
}

void fetch(const Shared& m, CUstream stream) {
    CUdeviceptr there = 0;
    if (locate(*m, there) != CUDA_SUCCESS) return;
    auto* const stage = static_cast<std::byte*>(heap::staging_alloc(m->bytes));
    if (!stage) {  // the region is full: slower, but right
        std::vector<std::byte> fetched(m->bytes);
        if (copy_to_host(fetched.data(), there, m->bytes, stream, Until::done) != CUDA_SUCCESS) return;
        std::lock_guard lock(mutex);
        return take_in(*m, fetched.data());
    }
    auto f = std::make_unique<Fetched>(Fetched{m, stage, 0});
    {
        std::lock_guard lock(mutex);
        m->mixed |= m->asked != m->arrived;
        f->number = ++m->asked;
    }
    if (command<Op::cuMemcpyDtoHAsync_v2>(static_cast<void*>(stage), there, m->bytes, stream) == CUDA_SUCCESS &&
        cuLaunchHostFunc(stream, arrived, f.get()) == CUDA_SUCCESS)
        return void(f.release());
    heap::staging_free(stage);
    std::lock_guard lock(mutex);
    ++m->arrived;
}

// What the variable is now, behind a stream that is done.
void look(const Shared& m, CUstream stream) {
    std::vector<std::byte> now(m->bytes);
    CUdeviceptr there = 0;
    for (int again = 0; again < 10 && locate(*m, there) == CUDA_SUCCESS; ++again) {
        std::uint64_t arrived;
        {
            std::lock_guard lock(mutex);
            m->looked = m->asked;
            m->mixed = m->asked != m->arrived;  // the others will not count, and may bring something new
            arrived = m->arrived;
        }
        if (copy_to_host(now.data(), there, m->bytes, stream, Until::done) != CUDA_SUCCESS) return;
        std::lock_guard lock(mutex);
        take_in(*m, now.data());
        if (m->arrived == arrived || !m->mixed) return;
    }
}

// The mirror of a library's variable, made at the first call.
CUresult find(CUlibrary library, const char* name, void** mirror, std::size_t* bytes) {
    for (const Shared& m : all())
        if (m->library == library && m->name == name) return *mirror = m->here, *bytes = m->bytes, CUDA_SUCCESS;
    const auto m = std::make_shared<Mirror>();
    m->library = library, m->name = name;
    CUdeviceptr there = 0;
    if (CUresult r = locate(*m, there); r != CUDA_SUCCESS) return r;
    m->here = static_cast<std::byte*>(heap::pinned_alloc(m->bytes, mark | CU_MEM_ATTACH_GLOBAL));
    if (!m->here) return CUDA_ERROR_OUT_OF_MEMORY;
    if (CUresult r = copy_to_host(m->here, there, m->bytes, nullptr, Until::done); r != CUDA_SUCCESS) return r;
    m->known.assign(m->here, m->here + m->bytes);
    std::lock_guard lock(mutex);
    for (const Shared& other : mirrors())  // somebody was quicker
        if (other->library == library && other->name == name)
            return *mirror = other->here, *bytes = other->bytes, CUDA_SUCCESS;
    *mirror = m->here, *bytes = m->bytes;
    mirrors().push_back(m);
    addresses_watched.store(true, std::memory_order_release);
    return CUDA_SUCCESS;
}

}  // namespace

void unloaded(CUlibrary library) noexcept {
    if (!variables_in_use() || forked_after_connection()) return;
    std::lock_guard lock(mutex);
    std::erase_if(mirrors(), [&](const Shared& m) { return m->library == library; });
    addresses_watched.store(!mirrors().empty(), std::memory_order_release);
}

void context_reset() noexcept {
    if (!variables_in_use() || forked_after_connection()) return;
    std::lock_guard lock(mutex);
    for (const Shared& m : mirrors()) m->there = 0;
}

// A parameter, or a word of one, whose value lies within a mirror is a pointer to it: no number is by chance.
const void* changed_for_kernel(const void* packed, std::size_t bytes, std::byte* room) noexcept {
    if (forked_after_connection()) return packed;
    if (packed != room) memcpy(room, packed, bytes);  // the program's own buffer stays as it is
    for (const Shared& m : all())
        for (std::size_t i = 0; i + 8 <= bytes; i += 8) {
            std::uint64_t word;
            memcpy(&word, room + i, 8);
            const std::uint64_t offset = word - reinterpret_cast<std::uint64_t>(m->here);
            CUdeviceptr there = 0;
            if (offset >= m->bytes || locate(*m, there) != CUDA_SUCCESS) continue;
            word = there + offset;
            memcpy(room + i, &word, 8);
        }
    return room;
}

void before_work(CUstream stream) noexcept {
    if (forked_after_connection() || capturing(stream)) return;  // a graph's kernels: when it is launched
    bool touched = false;
    if (std::lock_guard lock(mutex); true)
        for (const Shared& m : mirrors()) touched |= std::exchange(m->touched, false);
    if (touched) wait_for_contexts();  // what a copy or a fill writes must be there to be sent
    for (const Shared& m : all()) send(m, stream);
}

void look_after_wait(CUstream stream) noexcept {
    static thread_local bool looking = false;  // the look waits itself
    if (looking || forked_after_connection() || open_captures.load(std::memory_order_relaxed) != 0) return;
    looking = true;
    for (const Shared& m : all()) {
        if (std::lock_guard lock(mutex); !m->mixed) continue;
        look(m, stream);
    }
    looking = false;
}

void behind_work(CUstream stream) noexcept {
    if (forked_after_connection() || capturing(stream)) return;
    for (const Shared& m : all()) fetch(m, stream);
}

}  // namespace barcuda::guest::managed

namespace barcuda::guest {

std::atomic<bool> addresses_watched{false};

void address_named(std::uint64_t address) noexcept {
    std::lock_guard lock(managed::mutex);
    for (const managed::Shared& m : managed::mirrors())
        if (address - reinterpret_cast<std::uint64_t>(m->here) < m->bytes) m->touched = true;
}

}  // namespace barcuda::guest

using namespace barcuda::guest;

CU cuLibraryGetManaged(CUdeviceptr* address, size_t* bytes, CUlibrary library, const char* name) {
    if (!name) return CUDA_ERROR_INVALID_VALUE;
    if (!current_context()) return CUDA_ERROR_INVALID_CONTEXT;
    void* mirror = nullptr;
    size_t size = 0;
    if (CUresult r = managed::find(library, name, &mirror, &size); r != CUDA_SUCCESS) return r;
    if (address) *address = reinterpret_cast<CUdeviceptr>(mirror);
    if (bytes) *bytes = size;
    return CUDA_SUCCESS;
}
