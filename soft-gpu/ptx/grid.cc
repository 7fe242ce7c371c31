// SPDX-License-Identifier: Apache-2.0
// grid.cc: a launch. Host threads take blocks in order and run each to its end, a slice of every warp at a time. A
// thread whose blocks do not end takes a further block: so blocks that wait for other blocks make progress. In a
// cooperative launch it does so at once.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <thread>

#include "soft-gpu/ptx/errors.h"
#include "soft-gpu/ptx/module.h"
#include "soft-gpu/ptx/rounding.h"
#include "soft-gpu/ptx/schedule.h"

namespace barcuda::soft {

static std::uintptr_t reserve_window() {
    void* const at = mmap(nullptr, Window::size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return at == MAP_FAILED ? ~std::uintptr_t{0} - Window::size : reinterpret_cast<std::uintptr_t>(at);
}
const Window window{reserve_window()};

namespace {

constexpr std::int64_t slice = 20'000;  // instructions of a warp before the next warp runs
// rounds without a finished block before an ordinary launch takes a further block
constexpr int patient_rounds = 200;
constexpr std::size_t most_resident = 64;  // blocks that one host thread may run alternately in an ordinary launch
// Beside other load a yield takes a whole time slice: a thread whose blocks wait or sleep yields once in this time.
constexpr std::chrono::milliseconds between_yields{1};

std::atomic<std::uint64_t> executed_warps{0}, executed_lanes{0}, grid_count{0};

// ---- a block --------------------------------------------------------------------------------------------------------

struct Room {  // a block's memory, reused for the next block
    Block block;
    std::vector<std::byte> shared;
    std::byte* stacks = nullptr;
    std::size_t stacks_size = 0;
    Room() = default;
    Room(const Room&) = delete;
    Room& operator=(const Room&) = delete;
    ~Room() {
        if (stacks != nullptr) munmap(stacks, stacks_size);
    }
};

unsigned multiprocessors_of(const Grid& g) {
    return static_cast<unsigned>(g.config.multiprocessors ? g.config.multiprocessors : g.code->limits.multiprocessors);
}

std::uint64_t special_value(const Special& s, const Grid& g, const Block& b, unsigned warp, unsigned thread) {
    const auto* n = g.config.block;
    const unsigned lane = thread % lane_count;
    switch (s.kind) {
        case Special::tid_x: return thread % n[0];
        case Special::tid_y: return thread / n[0] % n[1];
        case Special::tid_z: return thread / n[0] / n[1];
        case Special::ntid_x: return n[0];
        case Special::ntid_y: return n[1];
        case Special::ntid_z: return n[2];
        case Special::ctaid_x: return b.index[0];
        case Special::ctaid_y: return b.index[1];
        case Special::ctaid_z: return b.index[2];
        case Special::nctaid_x: return g.config.grid[0];
        case Special::nctaid_y: return g.config.grid[1];
        case Special::nctaid_z: return g.config.grid[2];
        case Special::laneid: return lane;
        case Special::warpid: return warp;
        case Special::nwarpid: return 64;
        case Special::smid: return b.linear % multiprocessors_of(g);
        case Special::nsmid: return static_cast<unsigned>(g.code->limits.multiprocessors);
        case Special::gridid: return g.id;
        case Special::lanemask_eq: return 1u << lane;
        case Special::lanemask_lt: return (1u << lane) - 1;
        case Special::lanemask_le: return (2u << lane) - 1;
        case Special::lanemask_gt: return ~((2u << lane) - 1);
        case Special::lanemask_ge: return ~((1u << lane) - 1);
        case Special::dynamic_smem_size: return g.config.dynamic_shared_bytes;
        case Special::total_smem_size: return g.shared_bytes;
        case Special::envreg1: return g.workspace >> 32;
        case Special::reserved_begin:
        case Special::reserved_0: return g.reserved_shared;
        case Special::reserved_1: return g.reserved_shared + reserved_shared_bytes / 2;
        case Special::reserved_end: return g.reserved_shared + reserved_shared_bytes;
        case Special::reserved_size: return reserved_shared_bytes;
        case Special::envreg2: return g.workspace & 0xFFFFFFFF;
        case Special::zero: return 0;
        case Special::one: return 1;
        case Special::parameters: return reinterpret_cast<std::uintptr_t>(g.parameters);
        case Special::dynamic_shared: return g.shared_bytes - g.config.dynamic_shared_bytes;
    }
    return 0;
}

// A warp's special registers. Those of the thread and the grid are kept when its memory serves the next block of the
// same grid.
void fill_specials(Warp& w, const Grid& g, bool fresh) {
    for (const auto& s : g.code->specials) {
        const bool of_block = s.kind == Special::ctaid_x || s.kind == Special::ctaid_y || s.kind == Special::ctaid_z ||
                              s.kind == Special::smid;
        if (!fresh && !of_block) continue;
        auto* at = w.specials.data() + (s.slot & ~Slot{3});
        const unsigned bytes = std::max(s.bytes, 2u);
        if (of_block && bytes == 4) {  // fields of the block: the same in all lanes
            const auto value = static_cast<std::uint32_t>(special_value(s, g, *w.block, w.index, 0));
            for (unsigned lane = 0; lane < lane_count; ++lane) std::memcpy(at + lane * 4, &value, 4);
            continue;
        }
        for (unsigned lane = 0; lane < lane_count; ++lane) {
            const auto value = special_value(s, g, *w.block, w.index, w.index * lane_count + lane);
            std::memcpy(at + lane * bytes, &value, bytes);
        }
    }
}

void begin_block(Room& room, Grid& g, std::uint64_t linear) {
    Block& b = room.block;
    const bool fresh = b.grid != &g;
    b.grid = &g;
    b.linear = linear;
    const auto* n = g.config.grid;
    b.index[0] = static_cast<unsigned>(linear % n[0]);
    b.index[1] = static_cast<unsigned>(linear / n[0] % n[1]);
    b.index[2] = static_cast<unsigned>(linear / n[0] / n[1]);
    b.shared_bytes = g.reserved_shared != 0 ? g.reserved_shared + reserved_shared_bytes : g.shared_bytes;
    room.shared.resize(b.shared_bytes + 16);
    b.shared = room.shared.data();
    b.live = g.threads;
    b.barriers.fill({});
    b.stack_bytes = g.entry->stack_limit;
    b.stack_stride =
        // roughly an odd number of cache lines, so that lanes spread over the sets
        (b.stack_bytes + 63) / 64 * 64 + 64;
    const unsigned warps = (g.threads + lane_count - 1) / lane_count;
    b.warps.resize(warps);
    const auto stacks = b.stack_stride * lane_count * warps;
    if (room.stacks_size < stacks) {
        if (room.stacks != nullptr) munmap(room.stacks, room.stacks_size);
        void* const at =
            mmap(nullptr, stacks, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (at == MAP_FAILED) {
            room.stacks = nullptr;
            room.stacks_size = 0;
            throw Error{CUDA_ERROR_OUT_OF_MEMORY, "no memory for the threads' stacks"};
        }
        room.stacks = static_cast<std::byte*>(at);
        room.stacks_size = stacks;
    }
    for (unsigned i = 0; i < warps; ++i) {
        Warp& w = b.warps[i];
        w.block = &b;
        w.index = i;
        w.budget = 1;
        w.stacks = room.stacks + b.stack_stride * lane_count * i;
        w.specials.resize(g.code->special_bytes);
        w.bank[specials_bank] = w.specials.data();
        fill_specials(w, g, fresh);
        const unsigned rest = g.threads - i * lane_count;
        begin_warp(w, *g.entry, rest >= lane_count ? all_lanes : (Mask{1} << rest) - 1);
    }
}

// nvcc writes a call over several lines, but a message has one line.
std::string on_one_line(std::string_view text) {
    std::string line;
    for (const char c : text) {
        if (c != ' ' && c != '\t' && c != '\n' && c != '\r') line += c;
        else if (!line.empty() && line.back() != ' ') line += ' ';
    }
    return line;
}

// "kernel 'k', block (0,0,0), thread (5,0,0): line 12 'ld.global.u32 %r1, [%rd1];': ..."
Error located(const Grid& g, const Block& b, const Warp& w, const Fault& fault) {
    if (fault.code == CUDA_ERROR_ASSERT) return {fault.code, fault.what};  // the text already says where
    const unsigned thread = w.index * lane_count + static_cast<unsigned>(fault.lane);
    const auto* n = g.config.block;
    const auto triple = [](unsigned x, unsigned y, unsigned z) {
        char text[40];
        std::snprintf(text, sizeof text, "(%u,%u,%u)", x, y, z);
        return std::string(text);
    };
    std::string message = "kernel '" + g.entry->name + "', block " + triple(b.index[0], b.index[1], b.index[2]) +
                          ", thread " + triple(thread % n[0], thread / n[0] % n[1], thread / n[0] / n[1]);
    if (w.frame != nullptr && w.pc > 0) {
        const Function& f = *w.frame->function;
        if (!f.entry) message += ", in '" + f.name + "'";
        message += ", ptx line " + std::to_string(f.lines[w.pc - 1]) + " '" + on_one_line(f.texts[w.pc - 1]) + "'";
    }
    return {fault.code, message + ": " + fault.what};
}

// One slice of every warp. Finished: all threads have exited.
bool run_block(Block& b) {
    bool finished = true, ran = false;
    for (auto& w : b.warps) {
        if (w.exited == all_lanes) continue;
        try {
            const auto progress = run_warp(w, slice);
            finished &= progress == Progress::finished;
            ran |= progress != Progress::waits;
        } catch (const Fault& fault) { throw located(*b.grid, b, w, fault); }
    }
    if (finished || ran) return finished;
    for (auto& w : b.warps) {
        if (w.meets) w.fragments.push_back({w.frame, w.pc, w.mask, Fragment::at_barrier, 0, 0, 0});
        for (const auto& f : w.fragments) {
            w.frame = f.frame;
            w.pc = f.state == Fragment::at_sync ? f.pc + 1 : f.pc;
            throw located(
                *b.grid, b, w,
                {CUDA_ERROR_LAUNCH_FAILED, "deadlock: the threads it waits for never arrive", __builtin_ctz(f.mask)});
        }
    }
    return true;
}

// ---- a host thread of a launch --------------------------------------------------------------------------------------

void work(Grid& g) {
    const RoundedToNearest mode;
    std::vector<std::unique_ptr<Room>> resident, spare;
    int rounds = 0;
    auto yielded = std::chrono::steady_clock::now();
    std::uint64_t warps = 0, lanes = 0;
    try {
        while (!g.failed.load(std::memory_order_relaxed)) {
            const bool more =
                resident.empty() ||
                (g.config.cooperative ? rounds > 0 : rounds > patient_rounds && resident.size() < most_resident);
            if (more && g.next.load(std::memory_order_relaxed) < g.blocks) {
                const auto linear = g.next.fetch_add(1);
                if (linear < g.blocks) {
                    if (spare.empty()) spare.push_back(std::make_unique<Room>());
                    resident.push_back(std::move(spare.back()));
                    spare.pop_back();
                    begin_block(*resident.back(), g, linear);
                    rounds = 0;
                }
            }
            if (resident.empty()) break;
            ++rounds;
            for (std::size_t i = 0; i < resident.size();) {
                if (!run_block(resident[i]->block)) {
                    ++i;
                    continue;
                }
                rounds = 0;
                spare.push_back(std::move(resident[i]));
                resident[i] = std::move(resident.back());
                resident.pop_back();
            }
            if (rounds <= patient_rounds) continue;
            if (std::chrono::steady_clock::now() - yielded < between_yields) continue;
            std::this_thread::yield();
            yielded = std::chrono::steady_clock::now();
        }
    } catch (const Error& error) {
        std::lock_guard lock(g.mutex);
        if (!g.failed.exchange(true)) g.error = error;
    } catch (const std::bad_alloc&) {
        std::lock_guard lock(g.mutex);
        if (!g.failed.exchange(true))
            g.error = {CUDA_ERROR_OUT_OF_MEMORY, "no memory to run kernel '" + g.entry->name + "'"};
    }
    for (const auto* rooms : {&resident, &spare})
        for (const auto& room : *rooms) {
            warps += room->block.instructions;
            lanes += room->block.lane_instructions;
        }
    executed_warps += warps;
    executed_lanes += lanes;
}

// The host threads that help with launches. The launching thread always works itself, so no launch waits for another
// one.
class ThreadPool {
  public:
    static ThreadPool& shared() {
        static ThreadPool* const pool = [] {
            auto* const made = new ThreadPool;  // never destroyed: launches may outlive static destruction
            std::atexit([] { shared().stop(); });
            return made;
        }();
        return *pool;
    }
    void run(Grid& grid, std::size_t helpers) {
        if (helpers > 0 && !threads_.empty()) {
            std::lock_guard lock(mutex_);
            if (!stopped_) open_.insert(open_.end(), std::min(helpers, threads_.size()), &grid);
            wake_.notify_all();
        }
        work(grid);
        std::unique_lock lock(mutex_);
        std::erase(open_, &grid);
        left_.wait(lock, [&] { return std::find(busy_.begin(), busy_.end(), &grid) == busy_.end(); });
    }

  private:
    ThreadPool() {
        cpu_set_t ours;  // not hardware_concurrency(), which opens files: a caged worker cannot
        const int cores = sched_getaffinity(0, sizeof ours, &ours) == 0 ? CPU_COUNT(&ours) : 1;
        for (int i = 1; i < cores; ++i) threads_.emplace_back([this] { serve(); });
    }
    // A process ends without waiting for kernels: a running one may never end. Only idle threads are joined.
    void stop() {
        if (getpid() != made_by_) return;  // a fork has none of its parent's threads
        {
            const std::lock_guard lock(mutex_);
            stopped_ = true;
            if (!open_.empty() || !busy_.empty()) return;
            wake_.notify_all();
        }
        for (auto& t : threads_) t.join();
    }
    void serve() {
        std::unique_lock lock(mutex_);
        for (;;) {
            wake_.wait(lock, [&] { return stopped_ || !open_.empty(); });
            if (open_.empty()) return;
            Grid* const grid = open_.front();
            open_.pop_front();
            busy_.push_back(grid);
            lock.unlock();
            work(*grid);
            lock.lock();
            busy_.erase(std::find(busy_.begin(), busy_.end(), grid));
            left_.notify_all();
        }
    }
    std::mutex mutex_;
    std::condition_variable wake_, left_;
    std::deque<Grid*> open_;
    std::vector<Grid*> busy_;
    std::vector<std::thread> threads_;
    const pid_t made_by_ = getpid();
    bool stopped_ = false;
};

}  // namespace

Executed executed() { return {executed_warps.load(), executed_lanes.load()}; }

void execute(const Program& program, const KernelInfo& kernel, const LaunchConfig& config, AddressSpace& space,
             const std::function<void(std::string_view)>& print) {
    const auto& code = static_cast<const Code&>(program);
    Grid g;
    g.code = &code;
    g.config = config;
    g.space = &space;
    g.print = &print;
    g.entry = code.entry(kernel.name);
    if (g.entry == nullptr) throw Error{CUDA_ERROR_INVALID_HANDLE, "no kernel '" + kernel.name + "' in this program"};
    if (!g.entry->refusal.empty())
        throw Error{g.entry->refusal_code, "kernel '" + kernel.name + "': " + g.entry->refusal};
    g.threads = config.block[0] * config.block[1] * config.block[2];
    g.blocks = std::uint64_t{config.grid[0]} * config.grid[1] * config.grid[2];
    g.shared_bytes = (kernel.static_shared_bytes + 15) / 16 * 16 + config.dynamic_shared_bytes;
    if (code.uses_reserved_shared)
        g.reserved_shared = g.shared_bytes / reserved_shared_bytes * reserved_shared_bytes + reserved_shared_bytes;
    if (g.threads == 0 || g.threads > 1024 || g.blocks == 0 || g.shared_bytes > Window::shared_size)
        throw Error{CUDA_ERROR_INVALID_VALUE, "kernel '" + kernel.name + "': a launch of that shape"};
    if (config.parameters.size() < kernel.parameter_bytes)
        throw Error{CUDA_ERROR_INVALID_VALUE, "kernel '" + kernel.name + "': fewer parameter bytes than it declares"};
    g.id = grid_count.fetch_add(1) + 1;
    // The parameters, with room after them, are readable memory of this launch only.
    std::vector<std::byte> parameters(config.parameters.begin(), config.parameters.end());
    parameters.resize(std::max<std::size_t>((parameters.size() + 63) / 64 * 64, 64));
    g.parameters = parameters.data();
    g.parameter_bytes = parameters.size();
    struct alignas(16) Workspace {
        std::uint32_t words[256] = {};
    } workspace;  // of cooperative_groups' grid barrier
    if (config.cooperative) {
        g.workspace = reinterpret_cast<std::uintptr_t>(&workspace);
        workspace.words[0] = sizeof workspace;
        g.workspace_bytes = sizeof workspace;
    }
    ThreadPool::shared().run(g, static_cast<std::size_t>(std::min<std::uint64_t>(g.blocks - 1, 1024)));
    if (g.failed) throw g.error;
}

int max_active_blocks(const Limits& limits, const KernelInfo& kernel, int block_threads,
                      std::size_t dynamic_shared_bytes) {
    if (block_threads <= 0 || block_threads > kernel.max_threads_per_block) return 0;
    const int warps = (block_threads + lane_count - 1) / lane_count;
    const std::size_t shared =
        kernel.static_shared_bytes + dynamic_shared_bytes + 1024;  // 1 KiB of a block is the system's
    const auto by_shared =
        static_cast<int>((static_cast<std::size_t>(limits.max_shared_bytes_per_block) + 1024) / shared);
    return std::min({64 / warps, 32, by_shared});
}

}  // namespace barcuda::soft
