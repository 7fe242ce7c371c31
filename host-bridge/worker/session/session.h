// SPDX-License-Identifier: Apache-2.0
// session.h: one client, as its worker knows it. Every value here is the host's own: channel.h copies commands out of
// guest memory. A session consists of classes, each with its state and checks in a file of its name:
//
//   ClientRows  by which numbers it names its commands
//   Calls       functions of the program for which a stream waits
//   Handles     the client's ids, and the driver's handles behind them
//   Streams     whether one captures, whether its work is done
//   Contexts    which is current, and in which the client's memory is registered
//   Output      what kernels print, and what a failed assert says
//   InFlight    how much work the GPU has not done yet
//   Fences      words that the GPU writes, for which the client waits; the failures it finds then
//   Bounce      pinned memory for small copies to the device
//   Addresses   which device memory is the client's
//   Launches    kernels on their way to the driver
//   Deferred    what is released when the GPU is idle, and memory that is recycled
//   Code        images in parts, logs, links
//   PrintSearch whether any of it may print
//   Libraries   the host's cuBLAS and cuRAND
//   UserObjects what graphs keep for the client
//   Recording   what the GPU does for the client, for its profiler
//   Births      from which commands all of that was born
//
// Each needs only those before it, except Launches, which makes Deferred make room. The bodies of commands
// (bodies/memory.cc, ...) use these classes; the kinds (shm-device/kinds/kinds.h) call the first part of Session while
// a command is admitted and answered.
#pragma once
#include <cuda.h>

#include <memory>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "host-bridge/worker/births/births.h"
#include "host-bridge/worker/quota/allowance.h"
#include "host-bridge/worker/session/bounce.h"
#include "host-bridge/worker/session/calls.h"
#include "host-bridge/worker/session/client_rows.h"
#include "host-bridge/worker/session/code.h"
#include "host-bridge/worker/session/deferred.h"
#include "host-bridge/worker/session/libraries.h"
#include "host-bridge/worker/session/print_search.h"
#include "host-bridge/worker/session/recording.h"
#include "host-bridge/worker/session/turn_taking.h"
#include "host-bridge/worker/session/user_objects.h"

namespace barcuda {

class Session {
  public:
    Session(const Driver& driver, Extents& extents, Granter& granter, barcuda_status& status,
            barcuda_calls* calls = nullptr, const Bell& bell = {}, Sheet* sheet = nullptr);

    // ---- the kinds' host ------------------------------------------------------------------------------------------
    template <class T> Verdict find(std::uint64_t id, T& value) const {
        if (id == 0 && !std::is_same_v<T, CUstream>) return {kind::of_no_handle<T>};
        if (std::is_same_v<T, CUstream> && id <= 2) {  // the default streams
            value = (T)id;
            return fine;
        }
        return handles_.find(id, value) ? fine : Verdict{kind::of_unknown_handle<T>};
    }
    template <class T> Verdict vacant(std::uint64_t id) { return handles_.vacant(id) ? room<T>() : a_lie; }
    // Whether the client may have one more of this type.
    template <class T> Verdict room() {
        return may_have_one_more(takes_device_memory<T>) ? fine : Verdict{CUDA_ERROR_OUT_OF_MEMORY};
    }
    template <class T> void keep(std::uint64_t id, T value) {
        handles_.keep(id, value, place<T>());
        if constexpr (std::is_same_v<T, CUstream>) in_flight_.stream_made(value);
    }
    template <class T> std::uint64_t name(T value, std::uint64_t whole = 0) {
        return handles_.name(value, whole, place<T>());
    }
    // The same of an object that had this id in another process.
    template <class T> bool name_as(std::uint64_t id, T value, std::uint64_t whole = 0) {
        return handles_.name_as(id, value, whole, place<T>());
    }
    template <class T> bool is_part(T value, std::uint64_t whole) const { return handles_.is_part(value, whole); }
    void join(std::uint64_t id, std::uint64_t whole) { handles_.join(id, whole); }
    void drop(std::uint64_t id);
    // The graph of this stream's capture has got an id, which is gone when the capture leaves no graph behind.
    void captured(CUstream stream, CUgraph graph) { captured_.emplace_back(stream, graph); }
    void capture_ended(CUstream stream, CUgraph graph);  // null: with an error
    // User objects end with their last reference, in a graph or in the program. Their ids are then released.
    void forget_ended_objects();

    // Finds the address of [offset, offset + bytes), which must be in the client's extents.
    template <class T> Verdict locate(std::uint64_t offset, std::uint64_t bytes, T& value) const {
        value = reinterpret_cast<T>(extents_.locate(offset, bytes));
        return honest(value != nullptr);
    }
    bool holds(const void* address, std::uint64_t bytes) const {  // the same, by address
        return extents_.contains(reinterpret_cast<std::uint64_t>(address), bytes);
    }
    // An image that came in parts.
    template <class T> Verdict take_parts(std::uint64_t bytes, T& value) const {
        return (value = code_.parts(bytes)) ? fine : bad_value;
    }
    Verdict reachable(CUdeviceptr address, std::uint64_t bytes) { return addresses_.reachable(address, bytes); }
    Verdict reachable_rows(CUdeviceptr address, std::uint64_t pitch, std::uint64_t width, std::uint64_t height) {
        return addresses_.reachable_rows(address, pitch, width, height);
    }
    // Whether the client has freed what begins there: a driver may take a second free for a first one.
    bool is_freed(CUdeviceptr address) const {
        return addresses_.is_retired(address) || addresses_.is_freed_in_order(address);
    }
    void forget_address(CUdeviceptr freed);

    // Textures and surfaces: kernels get their raw numbers.
    void add_object(std::uint64_t object) { objects_.insert(object); }
    bool has_object(std::uint64_t object) const { return objects_.contains(object); }
    void remove_object(std::uint64_t object) { objects_.erase(object); }

    Verdict promise(const ext::Fence& fence) { return fences_.promise(fence); }
    void capture_begun() { streams_.capture_begun(); }
    // Sets where the scalars of this handle's next call are: in device memory or not.
    Verdict point(cublasHandle_t handle, bool device);
    void* scratch(std::size_t bytes);  // zero-filled; lives until the next command

    // ---- a command, from its copied bytes to its end (execute.cc)
    // A command that is not a launch comes after the launches that are held.
    void begin_command(std::uint32_t op);
    Verdict enter(std::uint32_t context, bool any) {
        return contexts_.enter(context, any, [&] { launches_.flush(); });
    }
    // Ends a context of the client, and everything in it.
    CUresult end(const Contexts::Living& context);
    void note_work() {
        if (turns_) turns_->before_work(contexts_.current());
        deferred_.note_work();
    }
    void count_work(CUstream stream) { in_flight_.add(contexts_.current(), stream); }
    void count_work() { in_flight_.add(); }
    void take_turns(TurnTaking* turns) { turns_ = turns; }
    TurnTaking* turns() const { return turns_; }
    // Other clients may open this memory of a pool by the token, until it is freed.
    void note_shown(CUdeviceptr memory, const Shared::Handle& token) { shown_[memory] = token; }
    Verdict end_command(std::uint32_t op, CUresult result, bool answered) {
        return fences_.end_command(op, result, answered);
    }

    // The GPU has as much unfinished work as the client may give it at a time (Limit::work). Asks the driver only if
    // fences do not tell.
    bool must_wait();
    // Gives the driver all that is held, releases what can be released, and says whether the GPU has done all that it
    // was given, and the client's threads have been told so. No function of the program is running for it then.
    bool quiet();
    // Called while the worker is idle.
    void rest();
    void note_given() { allowance_.note(Limit::work, in_flight_.count()); }

    // From now on births() records what makes this client's objects. The client has done nothing yet.
    void record_births(CodeStore& code);

    // What the worker alone knows of this client, between two commands. What it knows of objects beside their ids
    // (which addresses, registered extents, recorded calls) is born again with them.
    struct State {
        Handles::State handles;
        std::uint64_t context = 0;  // the id of the current one; 0: none
        bool has_captured = false;
        Calls::State calls;
        Fences::State fences;
        Output::State output;
        bool prints = false;  // some of the client's code does
        bool operator==(const State&) const = default;
    };
    // Right behind quiet(), which was true.
    State state();
    // Of a session that has done nothing yet; the objects of `state` are there. False: no session ever had this state.
    bool restore(const State& state);

    // ---- its classes
    Allowance& allowance() { return allowance_; }
    Counts& counts() { return counts_; }
    const Driver& driver() const { return driver_; }
    Extents& extents() { return extents_; }
    Granter& granter() { return granter_; }
    ClientRows& client_rows() { return client_rows_; }
    Handles& handles() { return handles_; }
    Streams& streams() { return streams_; }
    Contexts& contexts() { return contexts_; }
    Output& output() { return output_; }
    InFlight& in_flight() { return in_flight_; }
    Fences& fences() { return fences_; }
    Bounce& bounce() { return bounce_; }
    Addresses& addresses() { return addresses_; }
    Launches& launches() { return launches_; }
    Deferred& deferred() { return deferred_; }
    Code& code() { return code_; }
    PrintSearch& print_search() { return print_search_; }
    Libraries& libraries() { return libraries_; }
    UserObjects& user_objects() { return user_objects_; }
    Recording& recording() { return recording_; }
    Births& births() { return births_; }

  private:
    void forget_lost_graphs();
    bool may_have_one_more(bool takes_device_memory);
    // The id of the context with which an object of this type ends; 0: none.
    template <class T> std::uint64_t place() {
        if constexpr (!lives_in_a_context<T>) return 0;
        else return handles_.name(std::is_same_v<T, CUstream> ? contexts_.current() : contexts_.owner());
    }

    const Driver& driver_;
    Extents& extents_;
    Granter& granter_;
    const Bell bell_;
    Sheet no_sheet_;
    Allowance allowance_;
    Counts& counts_;  // in the sheet
    ClientRows client_rows_;
    Calls calls_;
    Handles handles_;
    Streams streams_;
    Contexts contexts_;
    Output output_;
    InFlight in_flight_;
    Fences fences_;
    Bounce bounce_;
    Addresses addresses_;
    Launches launches_;
    Deferred deferred_;
    Code code_;
    PrintSearch print_search_;
    Libraries libraries_;
    UserObjects user_objects_;
    Recording recording_;
    Births births_;
    TurnTaking* turns_ = nullptr;                         // null: the worker takes no turns
    std::vector<std::pair<CUstream, CUgraph>> captured_;  // graphs of open captures that have ids
    std::set<std::uint64_t> objects_;
    std::unordered_map<CUdeviceptr, Shared::Handle> shown_;
    std::unique_ptr<std::byte[]> scratch_;
    std::size_t scratch_used_ = 0;
};

Session& session();  // the session of the running command
inline const Driver& driver() { return session().driver(); }
class SessionScope {
  public:
    explicit SessionScope(Session& s);
    ~SessionScope();

  private:
    Session* const before_;
};

}  // namespace barcuda
