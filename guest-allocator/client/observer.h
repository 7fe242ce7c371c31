// SPDX-License-Identifier: Apache-2.0
// observer.h: what the channel needs from the layer above it, which defines these (guest-allocator/driver): a command
// is given handles and addresses as programs know them, and says which context it is for.
#pragma once
#include <cuda.h>

#include <atomic>
#include <cstdint>

namespace barcuda::guest {

// The top of this thread's stack of contexts; null: none. (driver/context.cc)
CUcontext current_context() noexcept;
inline std::uint32_t current_context_id() noexcept {
    return static_cast<std::uint32_t>(reinterpret_cast<std::uint64_t>(current_context()));
}

// Makes a context current, as long as it lives itself; none: as it is. (driver/context.cc)
class InContext {
  public:
    explicit InContext(CUcontext context) noexcept;
    ~InContext();
    InContext(const InContext&) = delete;

  private:
    const CUcontext before_;
    const bool changed_;
};

// The context in which a stream's work runs. Null if there is no such stream. (driver/stream.cc)
CUcontext context_of(CUstream stream) noexcept;
// In a thread without a current context, CUDA takes a call that names a stream of the program's own: the stream's
// context is current while this lives. Where there is none, `error` says why: a stream that is no more went with its
// context.
class InStreamsContext {
  public:
    explicit InStreamsContext(CUstream stream) noexcept : in_(current_context() ? nullptr : context_of(stream)) {
        if (!current_context())
            error = names_one(stream) ? CUDA_ERROR_CONTEXT_IS_DESTROYED : CUDA_ERROR_INVALID_CONTEXT;
    }
    CUresult error = CUDA_SUCCESS;

  private:
    static bool names_one(CUstream stream) noexcept { return reinterpret_cast<std::uintptr_t>(stream) > 2; }
    InContext in_;
};
// A context may end while it is current. (driver/context.cc)
bool current_lives() noexcept;
// Devices whose primary context has ended, and no other was made since: it may be current in some thread, and its
// handle is the next one's, too. While there are some: whether this thread's has ended. (driver/context.cc)
extern std::atomic<int> ended_primaries;
bool current_has_ended() noexcept;
// What an object is that is not known: without a current context, one that went with its own.
inline CUresult unknown_object(const void* handle) noexcept {
    return !handle || current_lives() ? CUDA_ERROR_INVALID_HANDLE : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

// What a handle means: each thread's default stream is a real one of its own (driver/stream.cc); a kernel where a
// function is expected is its function in the current context (driver/module.cc).
CUstream real(CUstream stream) noexcept;
CUfunction real(CUfunction function) noexcept;
template <class T> T real(T argument) noexcept { return argument; }

// Whether work that the stream is given becomes a graph's (driver/capture.cc). The worker is asked.
bool ask_capturing(CUstream stream) noexcept;

// Managed memory migrates between the region and the device (driver/managed). A Posting lives while a command is posted
// that may touch such memory: blocks that the CPU has go to the device first, and the command's stream waits for that.
namespace managed {
extern std::atomic<std::uint64_t> fast_path;  // driver/managed/state/gates.h; 0: no managed memory exists
inline bool exists() noexcept { return fast_path.load(std::memory_order_acquire) != 0; }

// The allocation or variable that holds the address; of no bytes if none does, though the address may be managed
// memory's: it was freed.
struct Extent {
    std::uint64_t begin = 0;
    std::size_t bytes = 0;
    bool is_managed = false;
};
Extent extent_of(std::uint64_t address) noexcept;

class Posting {
  public:
    Posting() = default;
    ~Posting() {
        if (counted_ || shown_) [[unlikely]]
            end();
    }
    Posting(const Posting&) = delete;
    // Kernels: they may touch all memory that their stream may. Null: their stream is unknown.
    void kernels(const CUstream* stream) noexcept;
    void range(std::uint64_t address, std::size_t bytes, const CUstream* stream) noexcept;
    // An argument may point to managed memory too. It is read or written while the command is written, when no thread
    // can wait for it. So it is fetched first; at the end, when it may have gone to the device, the CPU may read it
    // once more.
    void argument(const void* p, bool written) noexcept;
    void show_arguments() noexcept;

  private:
    void end() noexcept;
    bool counted_ = false;
    unsigned shown_ = 0;
    std::uintptr_t arguments_[4] = {};
};
}  // namespace managed

// A kernel's assert has failed: its text goes to this process's standard error. (driver/fence.cc)
void show_assert() noexcept;

}  // namespace barcuda::guest
