// SPDX-License-Identifier: Apache-2.0
// witness.h: what the kinds call in place of the session (shm-device/kinds/kinds.h) while a command is executed that
// leaves something behind: the session answers, and Births is told what the command uses, makes and ends. So launches,
// copies and waits, whose kinds call the session itself, cost nothing.
#pragma once
#include <type_traits>

#include "host-bridge/worker/session/session.h"

namespace barcuda {

class Witness {
  public:
    explicit Witness(Session& session) : session_(session), births_(session.births()) {}

    // ---- the kinds' host
    template <class T> Verdict find(std::uint64_t id, T& value) {
        const Verdict verdict = session_.find(id, value);
        if (!verdict.ok()) return verdict;
        births_.uses({Thing::Sort::object, id});
        if constexpr (std::is_same_v<T, CUstream>) note(value, id);
        if constexpr (std::is_same_v<T, cublasHandle_t> || std::is_same_v<T, curandGenerator_t>)
            note(session_.in_flight().stream_of(value), 0);
        return verdict;
    }
    template <class T> Verdict vacant(std::uint64_t id) { return session_.vacant<T>(id); }
    template <class T> Verdict room() { return session_.room<T>(); }
    template <class T> void keep(std::uint64_t id, T value) {
        session_.keep(id, value);
        births_.makes({Thing::Sort::object, id});
    }
    template <class T> std::uint64_t name(T value, std::uint64_t whole = 0) {
        std::uint64_t id = 0;
        if (!births_.replays()) id = session_.name(value, whole);
        else if (id = births_.expected(); !session_.name_as(id, value, whole)) id = 0;
        births_.named(id, session_.handles().whole_of(id));
        return id;
    }
    template <class T> bool is_part(T value, std::uint64_t whole) const { return session_.is_part(value, whole); }
    void join(std::uint64_t id, std::uint64_t whole) {
        session_.join(id, whole);
        births_.joins(id, whole);
    }
    void drop(std::uint64_t id) {
        session_.drop(id);
        if (id == stream_id_) has_stream_ = false;  // NVIDIA's driver crashes when it is asked about it
        births_.ends({Thing::Sort::object, id});
        births_.stream_gone(id);
    }
    template <class T> Verdict locate(std::uint64_t offset, std::uint64_t bytes, T& value) const {
        return session_.locate(offset, bytes, value);
    }
    bool holds(const void* address, std::uint64_t bytes) const { return session_.holds(address, bytes); }
    template <class T> Verdict take_parts(std::uint64_t bytes, T& value) const {
        return session_.take_parts(bytes, value);
    }
    Verdict reachable(CUdeviceptr address, std::uint64_t bytes) {
        const Verdict verdict = session_.reachable(address, bytes);
        if (verdict.ok() && bytes != 0) births_.uses_memory(address);
        return verdict;
    }
    Verdict reachable_rows(CUdeviceptr address, std::uint64_t pitch, std::uint64_t width, std::uint64_t height) {
        const Verdict verdict = session_.reachable_rows(address, pitch, width, height);
        if (verdict.ok() && width != 0 && height != 0) births_.uses_memory(address);
        return verdict;
    }
    bool is_freed(CUdeviceptr address) const { return session_.is_freed(address); }
    void forget_address(CUdeviceptr freed) {
        session_.forget_address(freed);
        births_.ends({Thing::Sort::memory, freed});
    }
    void add_object(std::uint64_t object) {
        session_.add_object(object);
        births_.makes({Thing::Sort::number, object});
    }
    bool has_object(std::uint64_t object) {
        births_.uses({Thing::Sort::number, object});
        return session_.has_object(object);
    }
    void remove_object(std::uint64_t object) {
        session_.remove_object(object);
        births_.ends({Thing::Sort::number, object});
    }
    Verdict promise(const ext::Fence& fence) { return session_.promise(fence); }
    void capture_begun() {
        session_.capture_begun();
        begun_ = true;
    }
    Verdict point(cublasHandle_t handle, bool device) { return session_.point(handle, device); }
    void* scratch(std::size_t bytes) { return session_.scratch(bytes); }

    // ---- the command (execute_row.h)
    void begin(Op op) {
        // Objects made in a green context belong to the full context, except streams.
        const Contexts& contexts = session_.contexts();
        const CUcontext current = op == Op::cuStreamCreateWithPriority ? contexts.current() : contexts.owner();
        births_.begin(op, births_.on() && session_.handles().has(current) ? session_.handles().name(current) : 0);
    }
    // An address that has come back: that of new memory, or of a variable.
    template <class Parameter> void note_address(const Parameter& parameter) {
        if constexpr (is_address<Parameter>)
            if (parameter.wanted) births_.makes_memory(parameter.value, Parameter::life == kind::Life::names);
    }
    // It has succeeded.
    void commit(std::span<const std::byte> body, std::span<const std::byte> answer) {
        const std::uint64_t capture = births_.on() && (begun_ || births_.captures()) ? capture_now() : 0;
        if (begun_ && capture) births_.capture_begun(capture, stream_id_);
        births_.captured(capture);
        births_.commit(body, answer);
    }
    // However it has ended.
    void end() {
        if (capture_ && capture_now() != capture_) births_.capture_ended(capture_);
    }

  private:
    template <class P> struct Address : std::false_type {};
    template <std::size_t I> struct Address<kind::out::As<CUdeviceptr*, I>> : std::true_type {};
    template <std::size_t I> struct Address<kind::maybe::As<CUdeviceptr*, I>> : std::true_type {};
    template <class P> static constexpr bool is_address = Address<P>::value;

    // The capture that the command's stream is in, if it has one that still lives.
    std::uint64_t capture_now() const { return has_stream_ ? session_.streams().capture_of(stream_) : 0; }
    void note(CUstream stream, std::uint64_t id) {
        stream_ = stream;
        stream_id_ = id;
        has_stream_ = true;
        if (births_.captures()) births_.captured(capture_ = session_.streams().capture_of(stream));
    }

    Session& session_;
    Births& births_;
    CUstream stream_ = nullptr;
    std::uint64_t stream_id_ = 0, capture_ = 0;
    bool has_stream_ = false, begun_ = false;
};

}  // namespace barcuda
