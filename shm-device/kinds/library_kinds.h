// SPDX-License-Identifier: Apache-2.0
// library_kinds.h: the kinds (kinds.h) of what NVIDIA's math libraries take: handles, scalars, vectors, matrices,
// results.
//
// A scalar of cuBLAS lies in host or in device memory, as the handle's pointer mode says. The mode is the guest's
// business (guest-allocator/libraries/blas.cc) and travels with each handle; the worker sets it before each call. Host
// scalars cross by value; results are always written by the GPU, to device memory or to the region, so that no worker
// waits for one.
#pragma once
#include <cublas_api.h>

#include "shm-device/kinds/kinds.h"

namespace barcuda::kind {

// Parameter N: a value of the guest's arguments, or that of the host's parameters.
template <std::size_t N, class Tuple> auto plain(const Tuple& of) {
    if constexpr (requires { std::get<N>(of).value; }) return std::get<N>(of).value;
    else return std::get<N>(of);
}

struct blas {  // a cuBLAS handle: its id, and bit 32: scalars lie in device memory
    static constexpr std::uint64_t id_mask = 0xffffffff, device_bit = 1ull << 32;
    static bool on_device(const auto& args) { return std::bit_cast<std::uint64_t>(std::get<0>(args)) & device_bit; }
    template <class T, std::size_t I> struct As : Plain {
        static_assert(I == 0, "scalars look for the mode there");
        std::uint64_t word = 0;
        T value{};
        static std::size_t room(const auto&) { return 8; }
        static CUresult valid(const auto& args, auto&) {
            return std::get<I>(args) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
        }
        static void send(Writer& w, const auto& args, auto&) { w.put(std::bit_cast<std::uint64_t>(std::get<I>(args))); }
        bool read(Reader& r, auto&) { return r.get(word); }
        Verdict check(auto&, auto& host) {
            if (Verdict v = host.find(word & id_mask, value); !v.ok()) return v;
            return host.point(value, word & device_bit);
        }
        T pass() { return value; }
    };
};

struct size : in {  // a number of rows, columns, or things
    template <class T, std::size_t I> struct As : in::As<T, I> {
        static CUresult valid(const auto& args, auto&) { return usable(std::get<I>(args) >= 0); }
    };
};
struct step : in {  // how far apart a vector's elements lie
    template <class T, std::size_t I> struct As : in::As<T, I> {
        static CUresult valid(const auto& args, auto&) { return usable(std::get<I>(args) != 0); }
    };
};
template <int Last> struct choice {  // an enumeration that ends there
    template <class T, std::size_t I> struct As : in::As<T, I> {
        static CUresult valid(const auto& args, auto&) {
            return usable(static_cast<unsigned>(std::get<I>(args)) <= unsigned{Last});
        }
    };
};
using operation = choice<CUBLAS_OP_C>;
using two = choice<1>;

// ---- memory of the device ------------------------------------------------------------------------------------------
// Products of the guest's numbers: no number that means memory reaches 2^48, and with that for more they fit.
using Wide = __int128;
template <std::size_t N, class Tuple> Wide number(const Tuple& of) {
    constexpr Wide most = Wide{1} << 48;
    const Wide n = plain<N>(of);
    return n > most ? most : n < -most ? -most : n;
}
constexpr std::uint64_t bounded(Wide bytes) {
    constexpr Wide most = Wide{1} << 62;
    return static_cast<std::uint64_t>(bytes < 0 ? 0 : bytes > most ? most : bytes);
}

// An address whose bytes, and their begin before it, Extent::of counts. Null is no memory: the library judges it,
// except where it is `needed`: a generator on the host would write there.
struct Span {
    Wide before = 0, bytes = 0;
};
template <class Extent> struct spread {
    template <class T, std::size_t I> struct As : Plain {
        std::uint64_t address = 0;
        static std::size_t room(const auto&) { return 8; }
        static CUresult valid(const auto& args, auto&) { return usable(Extent::template usable<T, I>(args)); }
        static void send(Writer& w, const auto& args, auto& guest) {
            const auto address = reinterpret_cast<std::uint64_t>(std::get<I>(args));
            const Span span = Extent::template of<T, I>(args);
            const std::uint64_t before = bounded(span.before);
            w.put(address ? std::uint64_t{guest.on_device(address - before, bounded(span.bytes))} + before : 0);
        }
        bool read(Reader& r, auto&) { return r.get(address); }
        Verdict check(auto& params, auto& host) {
            const Span span = Extent::template of<T, I>(params);
            const std::uint64_t before = bounded(span.before);
            if (span.bytes <= 0) return fine;
            if (address == 0) return Extent::needed ? bad_value : fine;
            return address < before ? bad_value : host.reachable(address - before, bounded(span.bytes));
        }
        T pass() { return reinterpret_cast<T>(address); }
    };
};

// What one element takes. Of void* a parameter says it: the next one.
constexpr std::size_t bytes_of(cudaDataType type) {
    switch (type) {
        case CUDA_R_8I:
        case CUDA_R_8U: return 1;
        case CUDA_R_16F:
        case CUDA_R_16BF:
        case CUDA_R_16I:
        case CUDA_R_16U:
        case CUDA_C_8I:
        case CUDA_C_8U: return 2;
        case CUDA_R_32F:
        case CUDA_R_32I:
        case CUDA_R_32U:
        case CUDA_C_16F:
        case CUDA_C_16BF: return 4;
        case CUDA_R_64F:
        case CUDA_C_32F: return 8;
        default: return 16;  // CUDA_C_64F, or what we do not know: rather too much
    }
}
template <class T> constexpr bool untyped = std::is_void_v<std::remove_pointer_t<T>>;
template <class T, std::size_t I, class Tuple> std::size_t element(const Tuple& of) {
    if constexpr (untyped<T>) return bytes_of(plain<I + 1>(of));
    else return sizeof(std::remove_pointer_t<T>);
}
template <class T, std::size_t I, std::size_t Ahead = 1, class Tuple> Wide behind(const Tuple& of) {
    return number<I + Ahead + (untyped<T> ? 1 : 0)>(of);
}

struct AnyOf {
    static constexpr bool needed = false;
    template <class T, std::size_t I> static bool usable(const auto&) { return true; }
};
template <std::size_t N> struct Bytes : AnyOf {
    template <class T, std::size_t I> static Span of(const auto& from) { return {0, number<N>(from)}; }
};
template <std::size_t N> struct Elements : AnyOf {
    static constexpr bool needed = true;
    template <class T, std::size_t I> static Span of(const auto& from) {
        return {0, number<N>(from) * sizeof(std::remove_pointer_t<T>)};
    }
};
template <std::size_t N, std::size_t M> struct Table : AnyOf {
    template <class T, std::size_t I> static Span of(const auto& from) {
        return {0, number<N>(from) * number<M>(from) * Wide(sizeof(std::remove_pointer_t<T>))};
    }
};
// Parameter N counts a vector's elements, or Other does, if parameter Trans is not CUBLAS_OP_N. The next parameter is
// its step.
template <std::size_t N, std::size_t Trans = 0, std::size_t Other = N> struct Vector : AnyOf {
    template <class T, std::size_t I> static Span of(const auto& from) {
        const Wide n = turned<Trans>(from) ? number<Other>(from) : number<N>(from);
        const Wide inc = behind<T, I>(from), apart = inc < 0 ? -inc : inc;
        return {0, n <= 0 ? 0 : ((n - 1) * apart + 1) * element<T, I>(from)};
    }
    template <std::size_t At> static bool turned(const auto& from) {
        if constexpr (At == 0) return false;
        else return static_cast<int>(plain<At>(from)) != CUBLAS_OP_N;
    }
};
// A matrix, stored by columns: Rows and Cols count them, the other way round if parameter Trans is not CUBLAS_OP_N. The
// next parameter says how far apart columns lie; with Count, the one behind it how far apart the matrices are.
template <std::size_t Rows, std::size_t Cols, std::size_t Trans = 0, std::size_t Count = 0> struct Matrix {
    static constexpr bool needed = false;
    template <class T, std::size_t I> static Span of(const auto& from) {
        const bool turned = Vector<0>::turned<Trans>(from);
        const Wide rows = turned ? number<Cols>(from) : number<Rows>(from);
        const Wide cols = turned ? number<Rows>(from) : number<Cols>(from);
        const Wide ld = behind<T, I>(from);
        if (rows <= 0 || cols <= 0 || ld < 0) return {};
        Span span{0, (cols - 1) * ld + rows};
        if constexpr (Count != 0) {
            const Wide count = number<Count>(from), stride = behind<T, I, 2>(from);
            if (count <= 0) return {};
            const Wide others = (count - 1) * stride;
            if (others < 0) span.before = -others;
            span.bytes += others < 0 ? -others : others;
        }
        return {span.before * Wide(element<T, I>(from)), span.bytes * Wide(element<T, I>(from))};
    }
    template <class T, std::size_t I> static bool usable(const auto& args) {
        const Wide rows = Vector<0>::turned<Trans>(args) ? number<Cols>(args) : number<Rows>(args);
        return behind<T, I>(args) >= (rows > 1 ? rows : 1);
    }
};
// The triangle of trsm: as many rows as the matrix on whose side it stands.
struct Triangle {
    static constexpr bool needed = false;
    template <class Tuple> static Wide edge(const Tuple& from) {
        return static_cast<int>(plain<1>(from)) == CUBLAS_SIDE_LEFT ? number<5>(from) : number<6>(from);
    }
    template <class T, std::size_t I> static Span of(const auto& from) {
        const Wide n = edge(from), ld = behind<T, I>(from);
        return {0, n <= 0 || ld < 0 ? 0 : ((n - 1) * ld + n) * Wide(element<T, I>(from))};
    }
    template <class T, std::size_t I> static bool usable(const auto& args) {
        return behind<T, I>(args) >= (edge(args) > 1 ? edge(args) : 1);
    }
};
// An array of addresses in device memory, what they mean is between the program and its GPU; of matrices as above.
template <class Each, std::size_t Count> struct Array {
    static constexpr bool needed = false;
    template <class T, std::size_t I> static Span of(const auto& from) { return {0, number<Count>(from) * 8}; }
    template <class T, std::size_t I> static bool usable(const auto& args) {
        return Each::template usable<std::remove_cv_t<std::remove_pointer_t<T>>, I>(args);
    }
};

template <std::size_t N> using bytes = spread<Bytes<N>>;
template <std::size_t N> using drawn = spread<Elements<N>>;
template <std::size_t N> using vector = spread<Vector<N>>;
using gemv_a = spread<Matrix<2, 3>>;
using gemv_x = spread<Vector<3, 1, 2>>;
using gemv_y = spread<Vector<2, 1, 3>>;
using ger_a = spread<Matrix<1, 2>>;
using trsm_a = spread<Triangle>;
using trsm_b = spread<Matrix<5, 6>>;
using gemm_a = spread<Matrix<3, 5, 1>>;
using gemm_b = spread<Matrix<5, 4, 2>>;
using gemm_c = spread<Matrix<3, 4>>;
using lu_a = spread<Array<Matrix<1, 1>, 6>>;
using lu_pivots = spread<Table<1, 6>>;
template <std::size_t Count> using batch_a = spread<Matrix<3, 5, 1, Count>>;
template <std::size_t Count> using batch_b = spread<Matrix<5, 4, 2, Count>>;
template <std::size_t Count> using batch_c = spread<Matrix<3, 4, 0, Count>>;
using trsm_as = spread<Array<Triangle, 12>>;
using trsm_bs = spread<Array<Matrix<5, 6>, 12>>;
template <std::size_t Count> using array_a = spread<Array<Matrix<3, 5, 1>, Count>>;
template <std::size_t Count> using array_b = spread<Array<Matrix<5, 4, 2>, Count>>;
template <std::size_t Count> using array_c = spread<Array<Matrix<3, 4>, Count>>;

// ---- scalars and results -------------------------------------------------------------------------------------------
// const T*; of const void* parameters say what it is: Compute how one computes, Type what of.
template <std::size_t Compute, std::size_t Type> struct Scalar {
    template <class T, std::size_t I> struct As : Plain {
        static constexpr std::size_t most =
            untyped<T> ? 16 : padded(sizeof(std::conditional_t<untyped<T>, int, std::remove_pointer_t<T>>));
        alignas(16) std::byte value[most];
        bool device = false;
        static std::size_t bytes(const auto& from) {
            if constexpr (!untyped<T>) return sizeof(std::remove_pointer_t<T>);
            else switch (static_cast<int>(plain<Compute>(from))) {
                    case CUBLAS_COMPUTE_16F:
                    case CUBLAS_COMPUTE_16F_PEDANTIC: return 2;
                    case CUBLAS_COMPUTE_64F:
                    case CUBLAS_COMPUTE_64F_PEDANTIC: return complex(from) ? 16 : 8;
                    default: return complex(from) ? 8 : 4;
                }
        }
        static bool complex(const auto& from) {
            const int type = plain<Type>(from);
            return type == CUDA_C_32F || type == CUDA_C_64F || type == CUDA_C_8I;
        }
        static CUresult valid(const auto& args, auto&) { return usable(std::get<I>(args) != nullptr); }
        static constexpr Pointed points = Pointed::read;
        static std::size_t room(const auto&) { return most; }
        static void send(Writer& w, const auto& args, auto& guest) {
            std::byte all[most] = {};
            const std::size_t n = bytes(args);
            const auto address = reinterpret_cast<std::uint64_t>(std::get<I>(args));
            const std::uint64_t there = blas::on_device(args) ? guest.on_device(address, n) : 0;
            if (blas::on_device(args)) std::memcpy(all, &there, sizeof there);
            else std::memcpy(all, std::get<I>(args), n);
            w.put_bytes(all, most);
        }
        bool read(Reader& r, auto&) {
            const std::byte* from = r.skip(most);
            if (from) std::memcpy(value, from, most);
            return from;
        }
        Verdict check(auto& params, auto& host) {
            device = std::get<0>(params).word & blas::device_bit;
            return device ? host.reachable(address(), bytes(params)) : fine;
        }
        std::uint64_t address() const {
            std::uint64_t a;
            std::memcpy(&a, value, sizeof a);
            return a;
        }
        T pass() { return device ? reinterpret_cast<T>(address()) : reinterpret_cast<T>(value); }
    };
};
using scalar = Scalar<0, 0>;
using ex_scalar = Scalar<17, 15>;  // of cublasGemmEx
using batched_ex_scalar = Scalar<18, 15>;
using strided_ex_scalar = Scalar<21, 17>;

struct result {  // T*, written by the GPU: device memory or the region
    template <class T, std::size_t I> struct As : Plain {
        static constexpr bool answers = true;
        std::uint64_t address = 0;
        static CUresult valid(const auto& args, auto&) { return usable(std::get<I>(args) != nullptr); }
        static std::size_t room(const auto&) { return 8; }
        static void send(Writer& w, const auto& args, auto& guest) {
            const auto address = reinterpret_cast<std::uint64_t>(std::get<I>(args));
            w.put(std::uint64_t{guest.on_device(address, sizeof(std::remove_pointer_t<T>))});
        }
        bool read(Reader& r, auto&) { return r.get(address); }
        Verdict check(auto& params, auto& host) {
            if (!(std::get<0>(params).word & blas::device_bit)) return a_lie;
            return host.reachable(address, sizeof(std::remove_pointer_t<T>));
        }
        T pass() { return reinterpret_cast<T>(address); }
    };
};

}  // namespace barcuda::kind
