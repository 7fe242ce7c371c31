// session.h: what a worker knows about its client, and what it checks: handles, extents, device addresses, contexts,
// fences. Every value here is the host's own; guest memory is read in channel.h alone. The kinds (shm-device/kinds.h)
// call the methods named in the first group while a command is admitted.
#pragma once
#include <cuda.h>

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "host-bridge/bell.h"
#include "host-bridge/worker/calls.h"
#include "host-bridge/worker/compiler_log.h"
#include "host-bridge/worker/errors.h"
#include "host-bridge/worker/extents.h"
#include "host-bridge/worker/handles.h"
#include "host-bridge/worker/launches.h"
#include "host-bridge/worker/libraries.h"
#include "host-bridge/bridge/shared.h"

namespace barcuda {

// Who grants heap memory, and knows what clients share: the bridge, over a socket (worker.cc); a test, in memory.
struct Granter {
    virtual ~Granter() = default;
    virtual CUresult grant(std::uint64_t bytes, std::uint64_t& offset, std::uint64_t& granted) = 0;
    virtual void give_back(std::uint64_t offset, std::uint64_t bytes) = 0;
    // A token for a driver's handle, and the way back.
    virtual CUresult share(Shared::Kind kind, Shared::Handle& handle) = 0;
    virtual CUresult find_shared(Shared::Kind kind, Shared::Handle& handle) = 0;
};

class Session {
  public:
    Session(const Driver& driver, Extents& extents, Granter& granter, barcuda_status& status,
            barcuda_calls* calls = nullptr, const Bell& bell = {});

    // ---- asked by the kinds -----------------------------------------------------------------------------------------
    template <class T> Verdict find(std::uint64_t id, T& value) {
        if (id == 0 && !std::is_same_v<T, CUstream>) return bad_handle;
        if (std::is_same_v<T, CUstream> && id <= 2) return value = (T)id, fine;  // the default streams
        return handles_.find(id, value) ? fine : bad_handle;
    }
    Verdict vacant(std::uint64_t id) const { return honest(handles_.vacant(id)); }
    template <class T> void keep(std::uint64_t id, T value) { handles_.keep(id, value, place<T>()); }
    template <class T> std::uint64_t name(T value, std::uint64_t whole = 0) {
        return handles_.name(value, whole, place<T>());
    }
    void drop(std::uint64_t id);

    // [offset, offset + bytes) lies in the client's extents.
    template <class T> Verdict locate(std::uint64_t offset, std::uint64_t bytes, T& value) {
        value = reinterpret_cast<T>(extents_.locate(offset, bytes));
        return honest(value != nullptr);
    }
    // An image that came in parts.
    bool add_part(std::uint64_t place, const void* bytes, std::size_t size);
    template <class T> Verdict take_parts(std::uint64_t bytes, T& value) const {
        value = parts_.data();
        return bytes && bytes == parts_.size() ? fine : bad_value;
    }
    // [address, address + bytes) is memory that the GPU may touch on this client's behalf: device memory of this
    // process or the client's extents, never the worker's own memory.
    Verdict reachable(CUdeviceptr address, std::uint64_t bytes);
    Verdict reachable_rows(CUdeviceptr address, std::uint64_t pitch, std::uint64_t width, std::uint64_t height);
    void forget_addresses() { reachable_.clear(); }
    void forget_address(std::uint64_t gone) { allocated_.erase(gone), forget_addresses(); }
    bool is_leaving(CUdeviceptr address) const;  // the driver has it still, the client has not

    bool holds(const void* address, std::uint64_t bytes) const {  // in the client's extents
        return extents_.contains(reinterpret_cast<std::uint64_t>(address), bytes);
    }

    // Textures and surfaces: kernels take their raw numbers.
    void add_object(std::uint64_t object) { objects_.insert(object); }
    bool has_object(std::uint64_t object) const { return objects_.contains(object); }
    void remove_object(std::uint64_t object) { objects_.erase(object); }
    void capture_begun() { captures_ = true; }
    // Where the scalars of this handle's next call lie.
    Verdict point(cublasHandle_t handle, bool device);

    void* scratch(std::size_t bytes);  // zero-filled; lives until the next command
    // -------------------------------------------------------------------------------------------------------------------

    const Driver& driver() const { return driver_; }
    Extents& extents() { return extents_; }
    Granter& granter() { return granter_; }
    Handles& handles() { return handles_; }
    Calls& calls() { return calls_; }
    Launches& launches() { return launches_; }
    Libraries& libraries() { return libraries_; }

    // Whatever is not a launch comes after those that are held.
    void begin_command(std::uint32_t op);
    // Tells the client why the command has failed, unless its reply does (`answered`); then, and not before, wakes who
    // waits for a fence that it leaves unwritten.
    void end_command(std::uint32_t op, CUresult result, bool answered);
    CUcontext current() const { return current_; }
    // Makes the context with this id current; 0 keeps whatever is.
    Verdict enter(std::uint32_t context_id);
    // A context has come to life: what waited for one is registered now.
    CUresult context_ready(CUcontext context) { return context_ready({context, not_primary, true}); }
    CUresult retain(CUcontext& context, CUdevice device);  // the client's primary context
    // The end of a context, and of all that is in it.
    CUresult reset(CUdevice device);
    CUresult destroy(CUcontext context);
    // The context in which extents are registered, for all contexts: one that outlives the client's own, if there is.
    void set_home(CUcontext context) { home_ = context; }
    CUresult register_extents();  // if a context lives already; else context_ready does it

    // ---- what would wait for the GPU (idle.cc)
    // A command that waits for the GPU keeps all of the client's threads waiting, the one too that the GPU waits for.
    // So whatever the driver does only when the GPU is through (giving memory back, above all) is put off until it is.
    bool done(
        CUstream stream);  // no work of the stream is under way; in a capture too: the driver has its answer to that
    void note_work() { worked_ = true; }  // the GPU has been given something
    CUresult allocate(CUdeviceptr& address, std::size_t bytes);
    CUresult free_when_idle(CUdeviceptr address);
    CUresult unload_when_idle(CUmodule module, CUlibrary library);  // one of the two
    CUresult destroy_when_idle(CUmemoryPool pool);
    CUresult release_when_idle(std::uint64_t offset, std::uint64_t bytes);
    CUresult close_when_idle(CUdeviceptr opened);
    void note_opened(CUdeviceptr address) { ++opened_[address]; }
    void note_shared(CUdeviceptr address);  // once it is freed, it is nobody's to have again
    bool untidy() const { return !leaving_.empty() || ending_; }
    // Gives back what has been put off, if the GPU is idle, or, since memory has run out, by waiting for it. True if
    // that was anything.
    bool tidy(bool wait = false);

    // The fence of the running command: somebody waits for it already, and is woken however the command ends.
    Verdict promise(const ext::Fence& fence);
    // Has the GPU write it. Remembered until that has happened, so that a GPU fault wakes whoever waits.
    CUresult write_fence(CUstream stream);
    // Forgets fences that have been written, and wakes whoever sleeps for one. True if some have not.
    bool collect_fences();
    // Looks after outstanding fences: done ones are forgotten; after a GPU fault all are written by the CPU, and the
    // status page says why. Called while the worker has nothing else to do.
    void watch_fences();

    void posted_failure(std::uint32_t op, CUresult result);
    bool capturing(CUstream stream) const;
    // What a link has come to: the driver keeps it until the link is destroyed.
    struct Link {
        std::unique_ptr<CompilerLog> log;
        void* image = nullptr;
        std::size_t bytes = 0;
    };
    std::map<CUlinkState, Link>& links() { return links_; }
    std::unique_ptr<CompilerLog>& load_log() { return load_log_; }
    bool& prints() { return prints_; }
    Errors& errors() { return errors_; }
    off_t& output_taken() { return output_taken_; }  // bytes of device output that the client has collected

  private:
    static constexpr CUdevice not_primary = -1;
    struct Living {
        CUcontext context;
        CUdevice primary_of;
        bool made;  // by cuCtxCreate, though it may be the client's primary one
    };
    // The context that the extents are registered in, ended by the client while other contexts' work was using them:
    // until all is done, it stays the driver's.
    struct Ending : Living {
        std::vector<CUstream> streams;
    };
    // The context that an object of this type goes with, by its id; 0: none.
    template <class T> std::uint64_t place() { return lives_in_a_context<T> ? handles_.name(current_) : 0; }
    CUresult context_ready(const Living& fresh);
    CUresult register_at_home();
    CUresult end(const Living& context);
    CUresult end_now(const Living& context);
    void context_gone(CUcontext context);  // with all that was in it
    struct Fence {
        std::uint64_t* word = nullptr;
        std::uint64_t value = 0;
        CUstream stream = nullptr;
        CUcontext context = nullptr;
        bool refused = false;  // the GPU will not write it
        bool reached() const;
    };
    struct Leaving {  // device memory, or an extent, or code, or a pool
        CUdeviceptr address;
        CUcontext context;
        std::uint64_t offset, bytes;
        CUmodule module = nullptr;
        CUlibrary library = nullptr;
        CUmemoryPool pool = nullptr;
        std::uint64_t size = 0;  // of memory that may be had again, as it was asked for
        bool opened = false;     // another process's memory
    };
    CUresult leave_when_idle(const Leaving& l);
    void forget_memory(CUcontext context);  // it is gone, and its memory with it
    bool idle();
    bool askable(CUstream stream) const;
    CUresult leave(const Leaving& l);
    void switch_to(CUcontext context);
    void note(CUresult result);
    void fault(CUresult error);
    static void release(const Fence& f);

    const Driver& driver_;
    Extents& extents_;
    Granter& granter_;
    barcuda_status& status_;
    const Bell bell_;
    Calls calls_;
    Handles handles_;
    Launches launches_{*this};
    Libraries libraries_;
    std::map<CUdeviceptr, std::uint64_t> reachable_;  // start -> bytes, as the driver reported them
    std::vector<Fence> fences_;                       // in the order in which they were asked for
    Fence promised_;                                  // by the running command
    std::vector<Leaving> leaving_;  // in the order in which the client gave them back
    struct Allocated {
        std::uint64_t bytes;  // as they were asked for
        CUcontext context;
    };
    std::unordered_map<CUdeviceptr, Allocated> allocated_;  // by cuMemAlloc
    std::map<CUdeviceptr, unsigned> opened_;                // another process's memory, and how often it was opened
    bool worked_ = false;                                   // since the GPU was last seen idle
    std::set<std::uint64_t> objects_;
    std::map<CUlinkState, Link> links_;
    std::unique_ptr<CompilerLog> load_log_;
    CUcontext current_ = nullptr, home_ = nullptr;
    std::vector<Living> contexts_;  // the client's
    std::optional<Ending> ending_;
    std::string parts_;
    std::unique_ptr<std::byte[]> scratch_;
    std::size_t scratch_used_ = 0;
    std::uint64_t posted_failures_ = 0;
    bool prints_ = false, captures_ = false;
    off_t output_taken_ = 0;
    Errors errors_;
};

Session& session();  // the one that the running command belongs to
struct SessionScope {
    explicit SessionScope(Session& s);
    ~SessionScope();
};

}  // namespace barcuda
