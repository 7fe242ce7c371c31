// SPDX-License-Identifier: Apache-2.0
// kinds.h: how one parameter travels. A kind tells the whole life of a parameter, in the order in which it happens:
//
//   guest   valid -> room, send     is the argument usable at all; how many bytes it takes; write it
//   guest   touched                 which device memory the command may read or write: touch(address, bytes)
//   host    read -> promise         take it from the (copied) request; note what a thread of the guest will wait for
//   host    check -> pass           check it against the session; give it the driver
//   host    publish                 write what the driver returned
//   guest   receive / failed        hand it to the program, or undo what `send` prepared
//
// and, of the whole, in one word: `life`, what the parameter is to the objects of the session when the call has
// succeeded.
//
// Arrays have their kinds in array_kinds.h.
//
// T is the parameter's own type, taken from the prototype in <cuda.h>; N is the position of the parameter that counts
// it. Guest-side steps see the whole argument tuple; host-side steps see the whole parameter tuple and the session
// ("host").
#pragma once
#include <cuda.h>

#include <bit>
#include <tuple>

#include "shm-device/kinds/structs.h"
#include "shm-device/kinds/verdict.h"
#include "shm-device/queue/packet.h"
#include "shm-device/queue/wire.h"

namespace barcuda {

// The most bytes a counted result (names, logs, small copies) may ask the host for; and a list of objects.
constexpr std::size_t max_result_bytes = 64 * 1024;
constexpr std::size_t max_list_bytes = 256 * 1024;

namespace kind {

constexpr CUresult usable(bool yes) { return yes ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE; }

// What `send` does with the program's memory, which may be managed: it cannot be waited for then.
enum class Pointed { not_at, read, written };

enum class Life {
    none,
    makes,  // there is a new object, or an address
    names,  // an object that the driver had already has got an id
    drops,  // an object, or an address, is gone
    lasts,  // an object is another than before
};

struct Plain {  // the life of a parameter that does nothing special
    static constexpr Life life = Life::none;
    static CUresult valid(const auto&, auto&) { return CUDA_SUCCESS; }
    static std::size_t room(const auto&) { return 0; }
    static std::size_t room_back(const auto&) { return 0; }
    static void send(Writer&, const auto&, auto&) {}
    static constexpr Pointed points = Pointed::not_at;
    static constexpr bool touches = false;
    static void touched(const auto&, auto&&) {}
    static bool read(Reader&, auto&) { return true; }
    static Verdict promise(auto&) { return fine; }
    static Verdict check(auto&, auto&) { return fine; }
    static void publish(Writer&, auto&, auto&) {}
    static void receive(Reader&, const auto&, auto&) {}
    static void failed(auto&) {}
};

struct in {  // a value
    template <class T, std::size_t I> struct As : Plain {
        static_assert(!std::is_pointer_v<T>,
                      "an address in the guest means nothing to the driver: choose a kind that checks it");
        T value{};
        static std::size_t room(const auto&) { return padded(sizeof(T)); }
        static void send(Writer& w, const auto& args, auto&) { w.put(std::get<I>(args)); }
        bool read(Reader& r, auto&) { return r.get(value); }
        T pass() { return value; }
    };
};

struct fence {  // what a word of the region gets when the stream has come this far; sooner only if that has failed
    template <class T, std::size_t I> struct As : in::As<T, I> {
        Verdict promise(auto& host) { return host.promise(this->value); }
    };
};

template <bool Optional> struct Out {  // *pointer, filled by the driver
    template <class T, std::size_t I> struct As : Plain {
        using Value = std::remove_pointer_t<T>;
        static constexpr Life life = !std::is_same_v<Value, CUdeviceptr> ? Life::none
                                     : Optional                          ? Life::names
                                                                         : Life::makes;
        Value value{};
        std::uint64_t wanted = 1;
        static CUresult valid(const auto& args, auto&) { return usable(Optional || std::get<I>(args) != nullptr); }
        static std::size_t room(const auto&) { return Optional ? 8 : 0; }
        static std::size_t room_back(const auto&) { return padded(sizeof(Value)); }
        static void send(Writer& w, const auto& args, auto&) {
            if constexpr (Optional) w.put(std::uint64_t{std::get<I>(args) != nullptr});
        }
        bool read(Reader& r, auto&) { return !Optional || r.get(wanted); }
        T pass() { return wanted ? &value : nullptr; }
        void publish(Writer& w, auto&, auto&) { w.put(value); }
        static void receive(Reader& r, const auto& args, auto&) {
            Value value{};
            if (r.get(value) && std::get<I>(args)) *std::get<I>(args) = value;
        }
    };
};
using out = Out<false>;
using maybe = Out<true>;  // the program may pass null

struct inout {  // *pointer, read and written by the driver
    template <class T, std::size_t I> struct As : Out<false>::As<T, I> {
        static constexpr Life life = Life::none;
        static std::size_t room(const auto&) { return padded(sizeof(std::remove_pointer_t<T>)); }
        static constexpr Pointed points = Pointed::read;
        static void send(Writer& w, const auto& args, auto&) { w.put(*std::get<I>(args)); }
        bool read(Reader& r, auto&) { return r.get(this->value); }
    };
};

struct desc {  // const struct*; what its memory and its handles are to either side: structs.h
    template <class T, std::size_t I> struct As : Plain {
        using Struct = std::remove_const_t<std::remove_pointer_t<T>>;
        Struct value{};
        static CUresult valid(const auto& args, auto&) { return usable(std::get<I>(args) != nullptr); }
        static std::size_t room(const auto&) { return padded(sizeof(value)); }
        static void send(Writer& w, const auto& args, auto& guest) {
            w.put(Crossing<Struct>::sent(*std::get<I>(args), guest));
        }
        static constexpr Pointed points = Pointed::read;
        static constexpr bool touches = Crossing<Struct>::touches;
        static void touched(const auto& args, auto&& touch) {
            if (std::get<I>(args)) Crossing<Struct>::touched(*std::get<I>(args), touch);
        }
        bool read(Reader& r, auto&) { return r.get(value); }
        Verdict check(auto&, auto& host) { return Crossing<Struct>::admit(value, host); }
        T pass() { return &value; }
    };
};

struct answered {  // struct* that the driver also writes to
    template <class T, std::size_t I> struct As : desc::As<T, I> {
        static constexpr Life life = Life::makes;
        static std::size_t room_back(const auto&) { return padded(sizeof(std::remove_pointer_t<T>)); }
        void publish(Writer& w, auto&, auto& host) {
            Crossing<std::remove_pointer_t<T>>::disclose(this->value, host);
            w.put(this->value);
        }
        static void receive(Reader& r, const auto& args, auto&) {
            if (const std::byte* from = r.skip(sizeof(std::remove_pointer_t<T>)))
                std::memcpy(std::get<I>(args), from, sizeof(std::remove_pointer_t<T>));
        }
    };
};

struct maybe_desc {  // the same as desc, or null
    template <class T, std::size_t I> struct As : Plain {
        using Struct = std::remove_const_t<std::remove_pointer_t<T>>;
        Struct value{};
        std::uint64_t there = 0;
        static constexpr Pointed points = Pointed::read;
        static std::size_t room(const auto&) { return 8 + padded(sizeof(value)); }
        static void send(Writer& w, const auto& args, auto& guest) {
            w.put(std::uint64_t{std::get<I>(args) != nullptr});
            w.put(std::get<I>(args) ? Crossing<Struct>::sent(*std::get<I>(args), guest) : Struct{});
        }
        bool read(Reader& r, auto&) { return r.get(there) && r.get(value); }
        Verdict check(auto&, auto& host) { return there ? Crossing<Struct>::admit(value, host) : fine; }
        T pass() { return there ? &value : nullptr; }
    };
};

// What CUDA says of null where a handle is expected. (Of a stream it is the default one.)
template <class T> inline constexpr CUresult of_no_handle =
    std::is_same_v<T, CUgraph> || std::is_same_v<T, CUgraphExec> || std::is_same_v<T, CUgraphNode> ||
            std::is_same_v<T, CUmemoryPool> || std::is_same_v<T, CUmemGenericAllocationHandle>
        ? CUDA_ERROR_INVALID_VALUE
    : std::is_same_v<T, CUcontext> ? CUDA_ERROR_INVALID_CONTEXT
                                   : CUDA_ERROR_INVALID_HANDLE;
// And of one that is no more.
template <class T> inline constexpr CUresult of_unknown_handle =
    std::is_same_v<T, CUmemGenericAllocationHandle> ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;

struct use {  // a handle; the guest only ever holds its id
    template <class T, std::size_t I> struct As : Plain {
        std::uint64_t id = 0;
        T value{};
        static std::size_t room(const auto&) { return 8; }
        static CUresult valid(const auto& args, auto& guest) {
            const auto id = std::bit_cast<std::uint64_t>(std::get<I>(args));
            if (id == 0 && !std::is_same_v<T, CUstream>) return of_no_handle<T>;
            return guest.knows(id) ? CUDA_SUCCESS : of_unknown_handle<T>;
        }
        static void send(Writer& w, const auto& args, auto&) { w.put(std::bit_cast<std::uint64_t>(std::get<I>(args))); }
        bool read(Reader& r, auto&) { return r.get(id); }
        Verdict check(auto&, auto& host) { return host.find(id, value); }
        T pass() { return value; }
    };
};

// And of the end of an object that the client has not made, but has been told of (its id is the host's). CUDA_SUCCESS:
// it may be ended all the same, as a graph that was captured.
template <class T> inline constexpr CUresult of_a_borrowed_handle =
    std::is_same_v<T, CUmodule> ? CUDA_ERROR_NOT_PERMITTED
    : std::is_same_v<T, CUlibrary> || std::is_same_v<T, CUevent> || std::is_same_v<T, CUarray> ||
            std::is_same_v<T, CUmipmappedArray>
        ? CUDA_ERROR_INVALID_HANDLE
        : CUDA_SUCCESS;

struct drop {  // a handle that is gone when the call has succeeded
    template <class T, std::size_t I> struct As : use::As<T, I> {
        static constexpr Life life = Life::drops;
        Verdict check(auto&, auto& host) {
            const Verdict verdict = host.find(this->id, this->value);
            return verdict.ok() && this->id >= wire::given ? Verdict{of_a_borrowed_handle<T>} : verdict;
        }
        void publish(Writer&, auto&, auto& host) { host.drop(this->id); }
        static void receive(Reader&, const auto& args, auto& guest) {
            guest.free_id(std::bit_cast<std::uint64_t>(std::get<I>(args)));
        }
    };
};

template <std::size_t Whole> struct joins {  // a handle that has become a part of what parameter Whole names
    template <class T, std::size_t I> struct As : use::As<T, I> {
        static constexpr Life life = Life::lasts;
        void publish(Writer&, auto& params, auto& host) { host.join(this->id, std::get<Whole>(params).id); }
    };
};

struct make {  // *pointer to a new handle, whose id the guest chooses: the call need not be waited for
    template <class T, std::size_t I> struct As : Plain {
        static constexpr Life life = Life::makes;
        using Handle = std::remove_pointer_t<T>;
        std::uint64_t id = 0;
        Handle value{};
        static CUresult valid(const auto& args, auto&) { return usable(std::get<I>(args) != nullptr); }
        static constexpr Pointed points = Pointed::written;
        static std::size_t room(const auto&) { return 8; }
        void send(Writer& w, const auto&, auto& guest) {
            id = guest.new_id();
            w.put(id);
        }
        bool read(Reader& r, auto&) { return r.get(id); }
        Verdict check(auto&, auto& host) { return host.template vacant<Handle>(id); }
        T pass() { return &value; }
        void publish(Writer&, auto&, auto& host) { host.keep(id, value); }
        void receive(Reader&, const auto& args, auto&) { *std::get<I>(args) = std::bit_cast<Handle>(id); }
        void failed(auto& guest) { guest.free_id(id); }
    };
};

// The last handle that a command uses. What the driver tells of, and the client had no id for, is a part of that: it
// may end with it. 0: there is none.
template <class T, std::size_t I> std::uint64_t used(const use::As<T, I>& parameter, std::uint64_t) {
    return parameter.id;
}
template <class Other> std::uint64_t used(const Other&, std::uint64_t before) { return before; }
template <class... Parameters> std::uint64_t last_used(const std::tuple<Parameters...>& params) {
    std::uint64_t last = 0;
    std::apply([&](const auto&... each) { ((last = used(each, last)), ...); }, params);
    return last;
}

struct give {  // *pointer to a handle that the driver already has: the host names it
    template <class T, std::size_t I> struct As : Plain {
        static constexpr Life life = Life::names;
        using Handle = std::remove_pointer_t<T>;
        std::uint64_t id = 0;
        Handle value{};
        static CUresult valid(const auto& args, auto&) { return usable(std::get<I>(args) != nullptr); }
        static std::size_t room_back(const auto&) { return 8; }
        static Verdict check(auto&, auto& host) { return host.template room<Handle>(); }
        T pass() { return &value; }
        void publish(Writer& w, auto& params, auto& host) {
            // (A captured graph is what its capture leaves behind: Session::captured.)
            w.put(id = host.name(value, std::is_same_v<Handle, CUgraph> ? 0 : last_used(params)));
        }
        static void receive(Reader& r, const auto& args, auto&) {
            std::uint64_t id = 0;
            if (r.get(id)) *std::get<I>(args) = std::bit_cast<Handle>(id);
        }
    };
};

template <class Host> struct Within {  // the host, for what is a part of `whole`
    std::uint64_t name(auto handle) { return host.name(handle, whole); }
    Host& host;
    const std::uint64_t whole;
};
struct told {  // struct*, filled by the driver; what it names is told as ids
    template <class T, std::size_t I> struct As : Out<false>::As<T, I> {
        static constexpr Life life = Life::names;
        template <class Host> void publish(Writer& w, auto& params, Host& host) {
            Within<Host> within{host, last_used(params)};
            Crossing<std::remove_pointer_t<T>>::disclose(this->value, within);
            w.put(this->value);
        }
    };
};

// The same for a part of what parameter Whole names: a module's function, a graph's node. It goes when the whole goes.
template <std::size_t Whole> struct part {
    template <class T, std::size_t I> struct As : give::As<T, I> {
        void publish(Writer& w, auto& params, auto& host) {
            w.put(this->id = host.name(this->value, std::get<Whole>(params).id));
        }
    };
};

// The handle of a conditional node's value, which kernels name by its raw number: made for the graph that parameter
// Whole names, and gone with it.
template <std::size_t Whole> struct make_condition {
    template <class T, std::size_t I> struct As : Out<false>::As<T, I> {
        static constexpr Life life = Life::makes;
        static Verdict check(auto&, auto& host) { return host.template room<std::remove_pointer_t<T>>(); }
        void publish(Writer& w, auto& params, auto& host) {
            host.name(this->value, std::get<Whole>(params).id);
            w.put(this->value);
        }
    };
};
template <std::size_t Whole> struct use_condition {  // such a number, of that graph
    template <class T, std::size_t I> struct As : in::As<T, I> {
        Verdict check(auto& params, auto& host) {
            return host.is_part(this->value, std::get<Whole>(params).id) ? fine : bad_value;
        }
    };
};

template <std::size_t N> struct region {  // memory in the region; parameter N counts its bytes
    template <class T, std::size_t I> struct As : Plain {
        std::uint64_t offset = 0;
        T value{};
        static std::size_t room(const auto&) { return 8; }
        static void send(Writer& w, const auto& args, auto& guest) {
            w.put(std::uint64_t{guest.offset_of(std::get<I>(args))});
        }
        bool read(Reader& r, auto&) { return r.get(offset); }
        Verdict check(auto& params, auto& host) { return host.locate(offset, std::get<N>(params).value, value); }
        T pass() { return value; }
    };
};

template <std::size_t N> struct image {  // the same, or null: what image_part brought
    template <class T, std::size_t I> struct As : region<N>::template As<T, I> {
        static void send(Writer& w, const auto& args, auto& guest) {
            w.put(std::uint64_t{std::get<I>(args) ? guest.offset_of(std::get<I>(args)) : 0});
        }
        Verdict check(auto& params, auto& host) {  // (no client's memory lies at 0)
            return this->offset ? region<N>::template As<T, I>::check(params, host)
                                : host.take_parts(std::get<N>(params).value, this->value);
        }
    };
};

// Memory named by the address at which the device finds it; of registered memory the program may know another.
template <std::size_t N, std::size_t Unit = 1> struct device {  // parameter N counts its units
    template <class T, std::size_t I> struct As : in::As<T, I> {
        static void send(Writer& w, const auto& args, auto& guest) {
            w.put(T{guest.on_device(std::get<I>(args), std::get<N>(args) * Unit)});
        }
        static constexpr bool touches = true;
        static void touched(const auto& args, auto&& touch) { touch(std::get<I>(args), std::get<N>(args) * Unit); }
        Verdict check(auto& params, auto& host) {
            const std::uint64_t count = std::get<N>(params).value;
            return count > ~std::uint64_t{0} / Unit ? bad_value : host.reachable(this->value, count * Unit);
        }
    };
};

// The same, of `Bytes` bytes.
template <std::size_t Bytes> struct device_word {
    template <class T, std::size_t I> struct As : in::As<T, I> {
        static void send(Writer& w, const auto& args, auto& guest) {
            w.put(T{guest.on_device(std::get<I>(args), Bytes)});
        }
        static constexpr bool touches = true;
        static void touched(const auto& args, auto&& touch) { touch(std::get<I>(args), Bytes); }
        Verdict check(auto&, auto& host) { return host.reachable(this->value, Bytes); }
    };
};

// The same of rows: parameter Pitch bytes apart, parameter Width units long, parameter Height of them.
template <std::size_t Pitch, std::size_t Width, std::size_t Height, std::size_t Unit = 1> struct pitched {
    template <class T, std::size_t I> struct As : in::As<T, I> {
        static std::size_t bytes(const auto& args) {
            return crossing::rows_bytes(std::get<Pitch>(args), std::get<Width>(args) * Unit, std::get<Height>(args));
        }
        static void send(Writer& w, const auto& args, auto& guest) {
            w.put(T{guest.on_device(std::get<I>(args), bytes(args))});
        }
        static constexpr bool touches = true;
        static void touched(const auto& args, auto&& touch) { touch(std::get<I>(args), bytes(args)); }
        Verdict check(auto& params, auto& host) {
            const std::uint64_t width = std::get<Width>(params).value;
            if (width > ~std::uint64_t{0} / Unit) return bad_value;
            return host.reachable_rows(this->value, std::get<Pitch>(params).value, width * Unit,
                                       std::get<Height>(params).value);
        }
    };
};

// The spellings that rows use: a kind with a comma in it does not fit into a macro's argument.
template <std::size_t N> using device16 = device<N, 2>;
template <std::size_t N> using device32 = device<N, 4>;
using rows8 = pitched<1, 3, 4>;
using rows16 = pitched<1, 3, 4, 2>;
using rows32 = pitched<1, 3, 4, 4>;

struct captures {  // the mode of a capture that has begun when the call has succeeded
    template <class T, std::size_t I> struct As : in::As<T, I> {
        static constexpr Life life = Life::lasts;
        void publish(Writer&, auto&, auto& host) { host.capture_begun(); }
    };
};

struct freed {  // device memory that is gone when the call has succeeded
    template <class T, std::size_t I> struct As : in::As<T, I> {
        static constexpr Life life = Life::drops;
        static constexpr bool frees = true;
        Verdict check(auto&, auto& host) { return host.is_freed(this->value) ? bad_value : fine; }  // twice
        void publish(Writer&, auto&, auto& host) { host.forget_address(this->value); }
    };
};

struct make_object {  // *pointer to a new object that kernels name by its raw number: a texture, a surface
    template <class T, std::size_t I> struct As : Out<false>::As<T, I> {
        static constexpr Life life = Life::makes;
        static Verdict check(auto&, auto& host) { return host.template room<std::remove_pointer_t<T>>(); }
        void publish(Writer& w, auto&, auto& host) {
            host.add_object(this->value);
            w.put(this->value);
        }
    };
};
struct use_object {  // such a number
    template <class T, std::size_t I> struct As : in::As<T, I> {
        Verdict check(auto&, auto& host) { return host.has_object(this->value) ? fine : bad_handle; }
    };
};
struct drop_object {  // such a number, gone when the call has succeeded
    template <class T, std::size_t I> struct As : use_object::As<T, I> {
        static constexpr Life life = Life::drops;
        void publish(Writer&, auto&, auto& host) { host.remove_object(this->value); }
    };
};

// How many bytes an attribute's value has.
constexpr std::size_t attribute_bytes(CUmemPool_attribute attribute) {
    switch (attribute) {
        case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
        case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
        case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES: return 4;
        default: return 8;
    }
}
constexpr std::size_t attribute_bytes(CUgraphMem_attribute) { return 8; }

struct attribute_in {  // void* to the value of the attribute that the parameter before it names
    template <class T, std::size_t I> struct As : Plain {
        static constexpr Life life = Life::lasts;
        std::uint64_t value = 0;
        static CUresult valid(const auto& args, auto&) { return usable(std::get<I>(args) != nullptr); }
        static constexpr Pointed points = Pointed::read;
        static std::size_t room(const auto&) { return 8; }
        static void send(Writer& w, const auto& args, auto&) {
            std::uint64_t word = 0;
            std::memcpy(&word, std::get<I>(args), attribute_bytes(std::get<I - 1>(args)));
            w.put(word);
        }
        bool read(Reader& r, auto&) { return r.get(value); }
        T pass() { return &value; }
    };
};
struct attribute {  // the same, filled by the driver
    template <class T, std::size_t I> struct As : Plain {
        std::uint64_t value = 0;
        static CUresult valid(const auto& args, auto&) { return usable(std::get<I>(args) != nullptr); }
        static std::size_t room_back(const auto&) { return 8; }
        T pass() { return &value; }
        void publish(Writer& w, auto&, auto&) { w.put(value); }
        static void receive(Reader& r, const auto& args, auto&) {
            std::uint64_t word = 0;
            if (r.get(word)) std::memcpy(std::get<I>(args), &word, attribute_bytes(std::get<I - 1>(args)));
        }
    };
};

struct text {  // const char*
    template <class T, std::size_t I> struct As : Plain {
        std::uint64_t length = 0;
        const char* value = nullptr;
        static CUresult valid(const auto& args, auto&) { return usable(std::get<I>(args) != nullptr); }
        static constexpr Pointed points = Pointed::read;
        static std::size_t room(const auto& args) { return 8 + padded(std::strlen(std::get<I>(args)) + 1); }
        static void send(Writer& w, const auto& args, auto&) {
            std::uint64_t n = std::strlen(std::get<I>(args)) + 1;
            w.put(n);
            w.put_bytes(std::get<I>(args), n);
        }
        bool read(Reader& r, auto&) {
            if (!r.get(length) || length == 0 || !(value = reinterpret_cast<const char*>(r.skip(length)))) return false;
            return value[length - 1] == 0;
        }
        T pass() { return value; }
    };
};

template <std::size_t N> struct blob {  // bytes that travel inside the request; parameter N counts them
    template <class T, std::size_t I> struct As : Plain {
        std::uint64_t length = 0;
        T value{};
        static CUresult valid(const auto& args, auto&) {
            return usable(std::get<I>(args) != nullptr || std::get<N>(args) == 0);
        }
        static constexpr Pointed points = Pointed::read;
        static std::size_t room(const auto& args) { return 8 + padded(std::get<N>(args)); }
        static void send(Writer& w, const auto& args, auto&) {
            w.put(std::uint64_t{std::get<N>(args)});
            w.put_bytes(std::get<I>(args), std::get<N>(args));
        }
        bool read(Reader& r, auto&) { return r.get(length) && (value = reinterpret_cast<T>(r.skip(length))); }
        Verdict check(auto& params, auto&) { return honest(length == std::get<N>(params).value); }
        T pass() { return value; }
    };
};

template <std::size_t N> struct fill {  // bytes that come back inside the reply; parameter N says how many there may be
    template <class T, std::size_t I> struct As : Plain {
        T value{};
        static CUresult valid(const auto& args, auto&) {
            return usable(std::get<I>(args) != nullptr && std::size_t(std::get<N>(args)) <= max_result_bytes);
        }
        static std::size_t room_back(const auto& args) { return padded(std::size_t(std::get<N>(args))); }
        Verdict check(auto& params, auto& host) {
            const auto bytes = std::size_t(std::get<N>(params).value);
            return honest(bytes <= max_result_bytes && (value = static_cast<T>(host.scratch(bytes))));
        }
        T pass() { return value; }
        void publish(Writer& w, auto& params, auto&) { w.put_bytes(value, std::size_t(std::get<N>(params).value)); }
        static void receive(Reader& r, const auto& args, auto&) {
            const auto bytes = std::size_t(std::get<N>(args));
            if (const std::byte* from = r.skip(bytes)) std::memcpy(std::get<I>(args), from, bytes);
        }
    };
};

}  // namespace kind
}  // namespace barcuda
