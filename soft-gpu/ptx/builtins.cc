// SPDX-License-Identifier: Apache-2.0
// builtins.cc: printf, assert, malloc and free of kernels, and the values of graphs' conditions. Arguments and results
// are in the caller's stack.
#include "soft-gpu/ptx/builtins.h"

#include <algorithm>

#include "soft-gpu/conditions.h"
#include "soft-gpu/ptx/memory.h"
#include "soft-gpu/ptx/module.h"
#include "soft-gpu/ptx/printf.h"

namespace barcuda::soft {
namespace {

std::byte* place(Warp& w, const Place& p, int lane) {
    return w.stacks + static_cast<std::size_t>(lane) * w.block->stack_stride + w.frame->stack_base + p.at;
}

std::uint64_t argument(Warp& w, const Call& site, std::size_t i, int lane) {
    std::uint64_t value = 0;
    std::memcpy(&value, place(w, site.arguments[i], lane), std::min<std::size_t>(site.arguments[i].bytes, 8));
    return value;
}

void result(Warp& w, const Call& site, int lane, std::uint64_t value) {
    if (!site.results.empty())
        std::memcpy(place(w, site.results[0], lane), &value, std::min<std::size_t>(site.results[0].bytes, 8));
}

std::string text_at(Warp& w, int lane, std::uint64_t address) {
    std::string text;
    if (address == 0) return "(null)";
    for (; text.size() < 65536; ++address) {
        const auto c = static_cast<char>(*resolve_generic(w, lane, address, 1, false));
        if (c == '\0') break;
        text += c;
    }
    return text;
}

void print(Warp& w, const std::string& text) {
    Grid& g = *w.block->grid;
    std::lock_guard lock(g.mutex);
    (*g.print)(text);
}

// int vprintf(format, arguments): each argument at a multiple of its own size
void vprintf_(Warp& w, const Call& site, Mask lanes) {
    for (; lanes != 0; lanes &= lanes - 1) {
        const int lane = __builtin_ctz(lanes);
        const auto format = text_at(w, lane, argument(w, site, 0, lane));
        std::uint64_t at = argument(w, site, 1, lane);
        PrintfArguments arguments;
        arguments.next = [&](unsigned bytes) {
            at = (at + bytes - 1) / bytes * bytes;
            std::uint64_t value = 0;
            std::memcpy(&value, resolve_generic(w, lane, at, bytes, false), bytes);
            at += bytes;
            return value;
        };
        arguments.text = [&](std::uint64_t address) { return text_at(w, lane, address); };
        int count = 0;
        print(w, format_printf(format, arguments, &count));
        result(w, site, lane, static_cast<std::uint64_t>(count));
    }
}

// void __assertfail(message, file, line, function, character size)
void assertfail(Warp& w, const Call& site, Mask lanes) {
    const int lane = __builtin_ctz(lanes);
    const Block& b = *w.block;
    const unsigned thread = w.index * lane_count + static_cast<unsigned>(lane);
    const auto* n = b.grid->config.block;
    const auto text = text_at(w, lane, argument(w, site, 1, lane)) + ":" + std::to_string(argument(w, site, 2, lane)) +
                      ": " + text_at(w, lane, argument(w, site, 3, lane)) + ": block: [" + std::to_string(b.index[0]) +
                      "," + std::to_string(b.index[1]) + "," + std::to_string(b.index[2]) + "], thread: [" +
                      std::to_string(thread % n[0]) + "," + std::to_string(thread / n[0] % n[1]) + "," +
                      std::to_string(thread / n[0] / n[1]) + "] Assertion `" +
                      text_at(w, lane, argument(w, site, 0, lane)) + "` failed.";
    throw Fault{CUDA_ERROR_ASSERT, text, lane};
}

void malloc_(Warp& w, const Call& site, Mask lanes) {
    for (; lanes != 0; lanes &= lanes - 1) {
        const int lane = __builtin_ctz(lanes);
        result(w, site, lane,
               reinterpret_cast<std::uintptr_t>(w.block->grid->code->heap.allocate(argument(w, site, 0, lane))));
    }
}

void free_(Warp& w, const Call& site, Mask lanes) {
    for (; lanes != 0; lanes &= lanes - 1) {
        const int lane = __builtin_ctz(lanes);
        const auto address = argument(w, site, 0, lane);
        if (address != 0 && !w.block->grid->code->heap.release(reinterpret_cast<std::byte*>(address)))
            throw Fault{CUDA_ERROR_ILLEGAL_ADDRESS, "free of a pointer that malloc did not return", lane};
    }
}

// void cudaGraphSetConditional(handle, value)
void set_condition(Warp& w, const Call& site, Mask lanes) {
    for (; lanes != 0; lanes &= lanes - 1) {
        const int lane = __builtin_ctz(lanes);
        if (!conditions().set(argument(w, site, 0, lane), static_cast<unsigned>(argument(w, site, 1, lane))))
            throw Fault{CUDA_ERROR_ILLEGAL_ADDRESS, "cudaGraphSetConditional of a handle that does not exist", lane};
    }
}

constexpr BuiltinFacts table[] = {
    {"vprintf", 2, vprintf_},
    {"__assertfail", 5, assertfail},
    {"malloc", 1, malloc_},
    {"free", 1, free_},
    {"cudaGraphSetConditional", 2, set_condition},
};

}  // namespace

const BuiltinFacts* find_builtin(std::string_view name) {
    const auto* found = std::find_if(std::begin(table), std::end(table), [&](const auto& b) { return b.name == name; });
    return found == std::end(table) ? nullptr : found;
}

}  // namespace barcuda::soft
