// SPDX-License-Identifier: Apache-2.0
// native.cc: when functions are compiled, and how compiled code runs.
#include "soft-gpu/ptx/native.h"

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <exception>
#include <thread>

#include "soft-gpu/ptx/arena.h"
#include "soft-gpu/ptx/lanes.h"
#include "soft-gpu/ptx/memory.h"
#include "soft-gpu/ptx/module.h"
#include "soft-gpu/ptx/schedule.h"

namespace barcuda::soft {
namespace {

// Compiling an instruction takes a millisecond, in which a warp can interpret some 20 thousand. A function that has
// cost as much as its compilation would will, as a rule, run as long again.
constexpr std::uint64_t worth_compiling = 20'000;
// The end of a program waits for a compilation in progress.
constexpr std::size_t most_instructions = 4'000;

Compiling by_environment() {
    const char* const text = std::getenv("BARCUDA_SOFT_COMPILE");
    const std::string_view v = text != nullptr ? text : "1";
    return v == "0" ? Compiling::never : v == "always" ? Compiling::at_once : Compiling::later;
}
Compiling wanted() { return wide_cpu ? compiling.load(std::memory_order_relaxed) : Compiling::never; }

// ---- the compiler's library -----------------------------------------------------------------------------------------

// The compiler uses LLVM's C interface, which is the same from LLVM 14 on, and takes it from the first of these that is
// here: so one build runs on all releases of distributions. By the names of Debian, Ubuntu, Fedora and Arch Linux.
bool open_llvm() {
    constexpr const char* names[] = {"libLLVM-14.so.1", "libLLVM-15.so.1", "libLLVM-16.so.1",
                                     "libLLVM-17.so.1", "libLLVM-18.so.1", "libLLVM.so.18.1",
                                     "libLLVM.so.19.1", "libLLVM.so.20.1", "libLLVM.so.21.1"};
    return std::ranges::any_of(names, [](const char* name) { return dlopen(name, RTLD_NOW | RTLD_GLOBAL) != nullptr; });
}

// It is beside this library, or, for programs that contain the engine, where it was built.
Compile open_compiler() {
    static const Compile compile = []() -> Compile {
        if (reserve_arena() == 0) return nullptr;
        Dl_info here{};
        std::string folder = ".";
        if (dladdr(reinterpret_cast<void*>(&has_native), &here) != 0 && here.dli_fname != nullptr) {
            folder = here.dli_fname;
            const auto slash = folder.rfind('/');
            folder = slash == folder.npos ? "." : folder.substr(0, slash);
        }
        std::string why = open_llvm() ? "" : "there is no library of LLVM 14 or newer here, such as Debian's libllvm14";
        for (const char* const place : {"/", "/../lib/barcuda-soft/"}) {
            if (!why.empty()) break;
            void* const library = dlopen((folder + place + compiler_library).c_str(), RTLD_NOW | RTLD_LOCAL);
            if (library != nullptr) return reinterpret_cast<Compile>(dlsym(library, compile_name));
            if (why.empty()) why = dlerror();
        }
        std::fprintf(stderr, "barcuda: the software GPU interprets all kernels: %s\n", why.c_str());
        return nullptr;
    }();
    return compile;
}

struct Received {
    std::vector<std::byte> bytes;
};

struct Specials {
    std::vector<Slot> uniform, across;
};
Specials specials_of(const Code& code) {
    Specials found;
    for (const auto& s : code.specials) switch (s.kind) {
            case Special::tid_y:
            case Special::tid_z: break;
            case Special::tid_x:
            case Special::laneid:
            case Special::lanemask_eq:
            case Special::lanemask_lt:
            case Special::lanemask_le:
            case Special::lanemask_gt:
            case Special::lanemask_ge: found.across.push_back(s.slot); break;
            default: found.uniform.push_back(s.slot);
        }
    return found;
}

// LLVM ends the process if it runs out of memory: near a limit, kernels are interpreted.
bool has_room(std::size_t instructions) {
    const std::size_t wanted = (std::size_t{64} << 20) + (instructions << 18);
    void* const room =
        mmap(nullptr, wanted, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return room != MAP_FAILED && munmap(room, wanted) == 0;
}

void compile(const Function& f, Variant variant) {
    const Compile compiler = open_compiler();
    if (compiler == nullptr || f.code.size() > most_instructions || !has_room(f.code.size())) return;
    Native& native = *f.native;
    const auto specials = specials_of(*native.code);
    Received received;
    const ToCompile what{
        &f, specials.uniform.data(), specials.uniform.size(), specials.across.data(), specials.across.size(), variant};
    Compiled result{&received,
                    [](void* to, const void* bytes, std::size_t size) {
                        const auto* from = static_cast<const std::byte*>(bytes);
                        static_cast<Received*>(to)->bytes.assign(from, from + size);
                    },
                    0,
                    {}};
    if (!compiler(&what, &result)) {
        std::fprintf(stderr, "barcuda: the software GPU interprets '%s': %s\n", f.name.c_str(), result.why_not);
        return;
    }
    void* const run = place_object(received.bytes, &native.memory[variant]);
    if (native.sites == 0) {
        native.sites = result.sites;
        native.first_site = native.code->sites.fetch_add(result.sites);
    }
    if (run != nullptr) native.run[variant].store(reinterpret_cast<NativeRun>(run), std::memory_order_release);
}

// A thread compiles while kernels run.
class Queue {
  public:
    static inline std::atomic<bool> begun{false};
    static Queue& shared() {
        static Queue* const queue = [] {
            open_compiler();               // LLVM's destructors must run after the one that stops its use
            auto* const made = new Queue;  // never destroyed: streams may use it until the process has ended
            std::atexit([] { shared().stop(); });
            begun = true;
            return made;
        }();
        return *queue;
    }
    void ask(const Function& f, Variant variant) {
        const std::lock_guard lock(mutex_);
        if (stopped_) return;
        if (!thread_.joinable()) thread_ = std::thread([this] { serve(); });
        open_.push_back({&f, variant});
        wake_.notify_one();
    }
    void forget(const Code& code) {
        std::unique_lock lock(mutex_);
        std::erase_if(open_, [&](const auto& job) { return job.first->native->code == &code; });
        done_.wait(lock, [&] { return busy_ != &code; });
    }
    // LLVM's own variables are destroyed at the end of the process: nothing may be compiled then.
    void stop() {
        {
            const std::lock_guard lock(mutex_);
            stopped_ = true;
            open_.clear();
            wake_.notify_one();
        }
        if (thread_.joinable() && getpid() == made_by_) thread_.join();  // a fork has none of its parent's threads
    }

  private:
    void serve() {
        std::unique_lock lock(mutex_);
        for (;;) {
            wake_.wait(lock, [&] { return stopped_ || !open_.empty(); });
            if (stopped_) return;
            const auto [f, variant] = open_.front();
            open_.pop_front();
            busy_ = f->native->code;
            lock.unlock();
            compile(*f, variant);
            lock.lock();
            busy_ = nullptr;
            done_.notify_all();
        }
    }
    std::mutex mutex_;
    std::condition_variable wake_, done_;
    std::deque<std::pair<const Function*, Variant>> open_;
    const Code* busy_ = nullptr;
    std::thread thread_;
    const pid_t made_by_ = getpid();
    bool stopped_ = false;
};

// ---- what compiled code calls ---------------------------------------------------------------------------------------

std::uint32_t step(Running* r, std::uint32_t index, std::uint32_t mask) {
    Warp& w = *r->warp;
    const Instr& in = r->code[index];
    w.pc = index + 1;
    w.budget = r->budget;
    std::uint32_t left = 1;
    try {
        left = in.run(w, in, mask) == Step::leave ? 1 : 0;
    } catch (...) { *static_cast<std::exception_ptr*>(r->fault) = std::current_exception(); }
    r->budget = w.budget;
    r->mask = w.mask;
    r->pc = w.pc;
    return left;
}

std::uint32_t access(Running* r, std::uint32_t index, std::uint32_t mask, std::uint32_t site) {
    Block& b = *r->warp->block;
    const auto left = step(r, index, mask);
    if (b.generation != r->generation_seen) {  // the handler has dropped its cached range; so must all sites
        r->generation_seen = b.generation;
        std::fill(b.sites.begin(), b.sites.end(), AddressSpace::Range{});
    }
    r->sites[site] = b.range;
    return left;
}

}  // namespace

std::atomic<Compiling> compiling{by_environment()};

Native::~Native() {
    for (auto* m : memory) give_back(m);
}

bool prepare_compiler() { return wanted() != Compiling::never && open_compiler() != nullptr; }

bool has_native(const Function& f, Mask mask) {
    const Variant v = mask == all_lanes ? whole_warp : some_lanes;
    Native& n = *f.native;
    if (n.run[v].load(std::memory_order_acquire) != nullptr) return wanted() != Compiling::never;
    if (wanted() != Compiling::at_once || n.asked[v].load(std::memory_order_acquire)) return false;
    static std::mutex mutex;
    const std::lock_guard lock(mutex);
    if (!n.asked[v].load(std::memory_order_acquire)) {
        compile(f, v);
        n.asked[v].store(true, std::memory_order_release);
    }
    return n.run[v].load(std::memory_order_acquire) != nullptr;
}

void note_interpreted(const Function& f, Mask mask, std::uint64_t executed) {
    const Variant v = mask == all_lanes ? whole_warp : some_lanes;
    Native& n = *f.native;
    const auto all = n.executed[v].fetch_add(executed, std::memory_order_relaxed) + executed;
    if (all < worth_compiling * f.code.size()) return;
    if (wanted() != Compiling::later || n.asked[v].exchange(true)) return;
    Queue::shared().ask(f, v);
}

void run_native(Warp& w) {
    const Function& f = *w.frame->function;
    const Native& native = *f.native;
    Block& b = *w.block;
    const Grid& g = *b.grid;
    std::exception_ptr fault;
    const auto now = g.space->generation();
    refresh_ranges(b);
    if (b.sites.size() < native.first_site + native.sites || b.sites_of != g.code || b.sites_seen != now) {
        b.sites.assign(g.code->sites, {});
        b.sites_of = g.code;
        b.sites_seen = now;
    }
    Running r;
    r.registers = w.bank[registers_bank];
    r.constants = w.bank[constants_bank];
    r.specials = w.bank[specials_bank];
    r.parameters = g.parameters;
    r.shared = b.shared;
    r.shared_bytes = b.shared_bytes;
    r.stacks = w.stacks;
    r.stack_stride = b.stack_stride;
    r.stack_bytes = b.stack_bytes;
    r.local_window = window.local();
    r.generation = g.space->generation_place();
    r.generation_seen = b.generation;
    r.sites = b.sites.data() + native.first_site;
    r.budget = w.budget;
    r.instructions = 0;
    r.stop = w.stop;
    r.step = step;
    r.access = access;
    r.warp = &w;
    r.code = f.code.data();
    r.fault = &fault;
    const Instr* const code = r.code;
    do {
        const auto run = native.run[w.mask == all_lanes ? whole_warp : some_lanes].load(std::memory_order_acquire);
        Went went = Went::lost;
        if (run != nullptr) {
            r.pc = w.pc;
            r.mask = w.mask;
            went = run(&r);
            if (fault) std::rethrow_exception(fault);
            w.pc = r.pc;
            w.budget = r.budget;
        }
        if (went == Went::left) break;
        if (went == Went::moved) continue;
        if (went == Went::meets) {
            if (meet_block(w)) {
                if (w.meets) break;
                continue;
            }
            const Instr& in = code[w.pc - 1];
            if (in.run(w, in, w.mask) == Step::leave) break;
            continue;
        }
        const Instr& in = code[w.pc++];
        Mask mask = w.mask;
        --w.budget;
        ++w.instructions;
        bool leaves = false;
        if (in.guard != nowhere) mask &= w.predicate(in.guard) ^ in.flip;
        if (mask != 0) leaves = in.run(w, in, mask) == Step::leave;
        r.budget = w.budget;
        if (leaves) break;
    } while (w.pc < w.stop);
    w.instructions += r.instructions;
    b.sites_seen = r.generation_seen;
}

void forget_native(const Code& code) {
    if (Queue::begun) Queue::shared().forget(code);
}

}  // namespace barcuda::soft
