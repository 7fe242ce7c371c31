// SPDX-License-Identifier: Apache-2.0
// contexts.h: the client's contexts: which one is current, and in which one the client's memory is registered. All of
// the client's threads share one thread here, so each command names its context, and the worker makes it current if
// necessary. The client's extents are registered once, for all contexts, in one of them: the home. That is the context
// that a warm worker had before its client, because it outlives all of the client's. If there is none, or the client
// begins with another device, it is the first context that the client made. If the home ends while other contexts' work
// uses what is registered there, the driver keeps it until all work is done (`ending`), and another context becomes the
// home.
#pragma once
#include <algorithm>
#include <optional>
#include <vector>

#include "host-bridge/worker/session/extents.h"
#include "host-bridge/worker/session/handles.h"
#include "shm-device/kinds/verdict.h"

namespace barcuda {

class Contexts {
  public:
    static constexpr CUdevice not_primary = -1;
    struct Living {
        CUcontext context;
        CUdevice primary_of;
        bool made;                   // by cuCtxCreate; it may still be the client's primary one
        CUgreenCtx green = nullptr;  // it is the context of this one, and
        CUcontext whole = nullptr;   // a part of this one, which has all that is made in it but its streams
    };
    struct Ending : Living {
        std::vector<CUstream> streams;  // its streams, which may still have work
    };

    Contexts(const Driver& driver, Extents& extents, Handles& handles)
        : driver_(driver), extents_(extents), handles_(handles) {}

    CUcontext current() const { return current_; }
    // Makes the context with this id current. 0 keeps the current one; so does the id of an ended one if `any` context
    // will do. Calls `before` if another one was current.
    template <class F> Verdict enter(std::uint32_t id, bool any, F before) {
        CUcontext context = nullptr;
        const bool lives = id && handles_.find(id, context);
        if (id && !lives && !any) return {CUDA_ERROR_INVALID_CONTEXT};
        if (!lives) {
            leave_ending();
            return fine;
        }
        if (context == current_) return fine;
        before();
        return {make_current(context)};
    }
    void switch_to(CUcontext context) {
        if (context && context != current_) make_current(context);
    }
    // While this object lives the worker may switch contexts; its end makes the previous context current again.
    class Visit {
      public:
        explicit Visit(Contexts& contexts)
            : contexts_(contexts), before_(contexts.in_ending() ? nullptr : contexts.current_) {}
        ~Visit() { contexts_.switch_to(before_); }
        Visit(const Visit&) = delete;

      private:
        Contexts& contexts_;
        const CUcontext before_;
    };

    // A context has been made: registers what waited for one.
    CUresult ready(const Living& fresh, CUdevice device);
    CUresult ready(CUcontext context, CUdevice device = 0) { return ready({context, not_primary, true}, device); }
    // The client's primary context of a device; makes it if there is none.
    CUresult retain(CUcontext& context, CUdevice device);

    const std::vector<Living>& living() const { return living_; }
    // Whose the memory, the code and the events are that are made now.
    CUcontext owner() const {
        const Living* const its = find(current_);
        return its && its->whole ? its->whole : current_;
    }
    const Living* part_of(CUcontext whole) const { return find(&Living::whole, whole); }
    const Living* primary(CUdevice device) const { return find(&Living::primary_of, device); }
    const Living* find(CUcontext context) const { return find(&Living::context, context); }
    // The context of one of the client's streams; null for a default stream.
    CUcontext of(CUstream stream) const {
        CUcontext context = nullptr;
        handles_.find(handles_.context_of(stream), context);
        return context;
    }
    // The client no longer has the context; the driver still has it.
    void gone(CUcontext context) {
        std::erase_if(living_, [&](const Living& l) { return l.context == context; });
    }
    // Ends it in the driver.
    CUresult end(const Living& living);
    // Not yet, while other contexts' work uses what is registered there.
    bool is_needed(CUcontext context) const { return context == home_ && living_.size() > 1; }
    void put_off(const Ending& ending);
    const std::optional<Ending>& ending() const { return ending_; }
    Ending take_ending();

    // The primary context of this device, which a warm worker has made before its client.
    void set_home(CUcontext context, CUdevice device) {
        home_ = context;
        if (context) warm_ = device;
    }
    void go_home() {  // for calls that need any context
        if (!current_) switch_to(home_);
    }
    CUresult register_extents();  // if a context exists; otherwise ready() does it

  private:
    template <class T> const Living* find(T Living::*member, T value) const {
        const auto at = std::ranges::find(living_, value, member);
        return at == living_.end() ? nullptr : &*at;
    }
    void leave_warm(CUdevice device);
    bool in_ending() const { return ending_ && current_ == ending_->context; }
    void leave_ending();
    CUresult make_current(CUcontext context);
    CUresult register_at_home();

    const Driver& driver_;
    Extents& extents_;
    Handles& handles_;
    CUcontext current_ = nullptr, home_ = nullptr;
    std::vector<Living> living_;    // the client's
    std::optional<CUdevice> warm_;  // the device of home_, before the client has any context
    std::optional<Ending> ending_;
};

}  // namespace barcuda
