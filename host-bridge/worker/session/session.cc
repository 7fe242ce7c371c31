// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/worker/session/session.h"

#include <cstring>
#include <utility>

#include "host-bridge/worker/quota/quota.h"
#include "host-bridge/worker/session/library_functions.h"

namespace barcuda {
namespace {
// Several counted results and lists of one command: no row has more than three of them, each of at most 256 KiB.
constexpr std::size_t scratch_bytes = 1 << 20;
Session* running = nullptr;
}  // namespace

Session& session() { return *running; }
SessionScope::SessionScope(Session& s) : before_(std::exchange(running, &s)) {}
SessionScope::~SessionScope() { running = before_; }

Session::Session(const Driver& driver, Extents& extents, Granter& granter, barcuda_status& status, barcuda_calls* calls,
                 const Bell& bell, Sheet* sheet)
    : driver_(driver),
      extents_(extents),
      granter_(granter),
      bell_(bell),
      allowance_(sheet ? *sheet : no_sheet_),
      counts_((sheet ? *sheet : no_sheet_).counts),
      calls_(calls, bell),
      streams_(driver),
      contexts_(driver, extents, handles_),
      in_flight_(driver),
      fences_(driver, extents, status, bell_, client_rows_, contexts_, streams_, output_, in_flight_),
      bounce_(driver, extents, contexts_, streams_, in_flight_),
      addresses_(driver, extents, streams_),
      launches_(driver, contexts_, streams_, fences_, [this] { return deferred_.reap(true); }),
      deferred_(driver, extents, granter, handles_, contexts_, streams_, in_flight_, fences_, addresses_, launches_),
      print_search_(status),
      libraries_(driver.library),
      user_objects_(driver),
      recording_(driver.library),
      scratch_(new std::byte[scratch_bytes]) {}

void Session::record_births(CodeStore& code) {
    births_.record(
        [this](std::uint64_t id) {
            CUuserObject object = nullptr;  // ends with its last reference, and keeps its id
            return handles_.contains(id) && (!handles_.find(id, object) || user_objects_.there(object));
        },
        [this] { return deferred_.unloaded(); }, code);
}

void Session::begin_command(std::uint32_t op) {
    scratch_used_ = 0;
    fences_.begin_command();
    if (op >= static_cast<std::uint32_t>(Op::count)) return;
    const Traits traits = traits_of(static_cast<Op>(op));
    if (traits & trait::held) return;
    libraries_.need(static_cast<Op>(op));
    launches_.flush();
    if (traits & trait::configures) launches_.forget();
    if (traits & trait::counts) deferred_.reap();
}

bool Session::may_have_one_more(bool takes_device_memory) {
    const std::uint64_t all = handles_.size() + objects_.size();
    allowance_.note(Limit::objects, all + 1);
    return allowance_.allows(Limit::objects, all) && !(takes_device_memory && quota() && quota()->over());
}

bool Session::must_wait() {
    const auto may_go_on = [&] { return allowance_.allows(Limit::work, in_flight_.count()); };
    if (may_go_on()) return false;
    launches_.flush();
    fences_.collect();
    note_given();
    return !may_go_on() && !deferred_.check_idle();
}

bool Session::quiet() {
    launches_.flush();
    if (!deferred_.check_idle()) return false;
    deferred_.reap();
    return deferred_.check_idle() && calls_.quiet();  // what is released may be work, too
}

void Session::forget_ended_objects() {
    for (const Handles::State::Object& object : handles_.state().objects)
        if (CUuserObject its = nullptr; handles_.find(object.id, its) && !user_objects_.there(its)) drop(object.id);
}

Session::State Session::state() {
    const CUcontext current = contexts_.current();
    return {.handles = handles_.state(),
            .context = handles_.has(current) ? handles_.name(current) : 0,
            .has_captured = streams_.has_captured(),
            .calls = calls_.state(),
            .fences = fences_.state(),
            .output = output_.state(),
            .prints = print_search_.found()};
}

bool Session::restore(const State& state) {
    if (!handles_.restore(state.handles)) return false;
    CUcontext context = nullptr;
    if (state.context && !handles_.find(state.context, context)) return false;
    contexts_.switch_to(context);
    if (state.has_captured) streams_.capture_begun();
    calls_.restore(state.calls);
    fences_.restore(state.fences);
    output_.restore(state.output);
    print_search_.restore(state.prints);
    return true;
}

void Session::rest() {
    allowance_.note(Limit::objects, handles_.size() + objects_.size());
    deferred_.check_idle();
    note_given();
    if (quota()) quota()->look();
    output_.pass_on();
}

void Session::drop(std::uint64_t id) {
    CUstream stream = nullptr;
    if (handles_.find(id, stream)) {
        launches_.forget(stream);
        fences_.stream_gone(stream);
        bounce_.stream_gone(stream);
        addresses_.stream_gone(stream);
        in_flight_.stream_gone(stream);
        for (auto& [its, graph] : captured_)
            if (its == stream) its = nullptr;
    }
    CUgraph graph = nullptr;
    if (handles_.find(id, graph)) addresses_.graph_gone(graph);
    CUlinkState link = nullptr;
    if (handles_.find(id, link)) code_.link_gone(link);
    cublasHandle_t blas = nullptr;
    if (handles_.find(id, blas)) in_flight_.handle_gone(blas);
    curandGenerator_t random = nullptr;
    if (handles_.find(id, random)) in_flight_.handle_gone(random);
    handles_.drop(id);
    if (stream && !captured_.empty()) forget_lost_graphs();
}

void Session::capture_ended(CUstream stream, CUgraph graph) {
    addresses_.capture_ended(stream, graph);
    std::erase_if(captured_, [graph](const auto& open) { return open.second == graph; });
    if (!captured_.empty()) forget_lost_graphs();
}

// A capture has several streams, of which any may have been asked for the graph, and any may end it.
void Session::forget_lost_graphs() {
    std::erase_if(captured_, [this](const auto& open) {
        const auto& [stream, graph] = open;
        if (stream && streams_.captured_by(stream) == graph) return false;
        addresses_.graph_gone(graph);
        handles_.drop(handles_.id_of(graph));
        return true;
    });
}

void Session::forget_address(CUdeviceptr freed) {
    addresses_.forget(freed);
    const auto shown = shown_.find(freed);
    if (shown == shown_.end()) return;
    granter_.withdraw(shown->second);
    shown_.erase(shown);
}

// What is registered in a context would end with it while other contexts' work uses it. Then the driver keeps the
// context until all work is done.
CUresult Session::end(const Contexts::Living& l) {
    while (const Contexts::Living* const part = contexts_.part_of(l.context))
        if (const CUresult r = end(Contexts::Living(*part)); r != CUDA_SUCCESS) return r;
    const std::uint64_t id = handles_.name(l.context);
    const auto parts = handles_.within(id);
    const bool now = !contexts_.is_needed(l.context) || deferred_.check_idle();
    if (!now) {
        Contexts::Ending ending{l, {}};
        for (const std::uint64_t part : parts)
            if (CUstream stream; handles_.find(part, stream)) ending.streams.push_back(stream);
        contexts_.put_off(ending);
    }
    contexts_.gone(l.context);
    bounce_.context_gone(l.context);
    births_.ends({Thing::Sort::object, id});
    // A library outlives the context, and its variables there do not.
    addresses_.each_variable(l.context, [&](CUdeviceptr at) { births_.ends({Thing::Sort::memory, at}); });
    for (const std::uint64_t part : parts) drop(part);
    deferred_.context_gone(l.context);
    addresses_.context_gone(l.context);
    in_flight_.context_gone(l.context);
    if (!now || l.made) handles_.drop(id);  // the driver's primary context keeps its handle
    if (!now) return CUDA_SUCCESS;
    const CUresult r = contexts_.end(l);
    fences_.context_gone(l.context);
    return r;
}

void* Session::scratch(std::size_t bytes) {
    if (bytes > scratch_bytes - scratch_used_) return nullptr;
    void* at = scratch_.get() + scratch_used_;
    scratch_used_ += padded(bytes);
    return std::memset(at, 0, bytes);
}

Verdict Session::point(cublasHandle_t handle, bool device) {
    if (const auto set = libraries_.functions().cublasSetPointerMode_v2)
        set(handle, device ? CUBLAS_POINTER_MODE_DEVICE : CUBLAS_POINTER_MODE_HOST);
    return fine;
}

}  // namespace barcuda
