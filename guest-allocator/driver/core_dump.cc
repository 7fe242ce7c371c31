// SPDX-License-Identifier: Apache-2.0
// core_dump.cc: what a program asks and sets about dumps of the GPU. A dump would be the worker's, on the host, where a
// guest has no files: names and choices are kept here, for the program and for each context, and the switches that make
// dumps stay off. Kinds of values and codes are an H100's.
#include <string.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "guest-allocator/client/client.h"
#include "guest-allocator/client/error_log.h"
#include "guest-allocator/client/log.h"
#include "guest-allocator/client/mutex.h"
#include "guest-allocator/driver/context.h"
#include "guest-allocator/driver/export.h"

namespace barcuda::guest {
namespace {

constexpr std::size_t most_text = 1024;  // bytes of a name, with its NUL

struct Choices {
    unsigned flags = CU_COREDUMP_DEFAULT_FLAGS;
    bool lightweight = false;
    std::string file{}, pipe{};
};
Mutex mutex;
// Of the program; a context begins with them when it is first asked about.
Choices& of_program() {
    static auto* const choices = new Choices;
    return *choices;
}
Choices& of(CUcontext context) {
    static auto* const all = new std::map<std::pair<CUcontext, std::uint32_t>, Choices>;
    return all->try_emplace({context, ends_of(context)}, of_program()).first->second;
}

// Bytes of its value; 0: there is no such attribute there.
std::size_t bytes_of(CUcoredumpSettings attribute, bool program) {
    switch (attribute) {
        case CU_COREDUMP_ENABLE_ON_EXCEPTION:
        case CU_COREDUMP_TRIGGER_HOST:
        case CU_COREDUMP_LIGHTWEIGHT: return sizeof(bool);
        case CU_COREDUMP_ENABLE_USER_TRIGGER: return program ? sizeof(bool) : 0;
        case CU_COREDUMP_FILE: return most_text;
        case CU_COREDUMP_PIPE: return program ? most_text : 0;
        case CU_COREDUMP_GENERATION_FLAGS: return sizeof(unsigned);
        default: return 0;
    }
}
bool is_text(CUcoredumpSettings attribute) { return attribute == CU_COREDUMP_FILE || attribute == CU_COREDUMP_PIPE; }

CUresult get(Choices& its, CUcoredumpSettings attribute, void* value, std::size_t size) {
    const auto tell = [&](auto what) {
        memcpy(value, &what, sizeof what);
        return CUDA_SUCCESS;
    };
    switch (attribute) {
        case CU_COREDUMP_TRIGGER_HOST: return tell(!(its.flags & CU_COREDUMP_SKIP_ABORT));
        case CU_COREDUMP_LIGHTWEIGHT: return tell(its.lightweight);
        case CU_COREDUMP_GENERATION_FLAGS: return tell(its.flags);
        case CU_COREDUMP_FILE:
        case CU_COREDUMP_PIPE: {
            const std::string& text = attribute == CU_COREDUMP_FILE ? its.file : its.pipe;
            if (size) memcpy(value, text.c_str(), std::min(size, text.size() + 1));
            return CUDA_SUCCESS;
        }
        default: return tell(false);  // the switches
    }
}

CUresult set(Choices& its, CUcoredumpSettings attribute, const void* value, std::size_t size) {
    bool on = false;
    if (size == sizeof on) memcpy(&on, value, sizeof on);
    switch (attribute) {
        case CU_COREDUMP_TRIGGER_HOST:
            its.flags = on ? its.flags & ~unsigned{CU_COREDUMP_SKIP_ABORT} : its.flags | CU_COREDUMP_SKIP_ABORT;
            return CUDA_SUCCESS;
        case CU_COREDUMP_LIGHTWEIGHT: its.lightweight = on; return CUDA_SUCCESS;
        case CU_COREDUMP_GENERATION_FLAGS: memcpy(&its.flags, value, sizeof its.flags); return CUDA_SUCCESS;
        case CU_COREDUMP_FILE:
        case CU_COREDUMP_PIPE: {
            const auto* const text = static_cast<const char*>(value);
            (attribute == CU_COREDUMP_FILE ? its.file : its.pipe)
                .assign(text, strnlen(text, std::min(size, most_text - 1)));
            return CUDA_SUCCESS;
        }
        default: return on ? CUDA_ERROR_NOT_SUPPORTED : CUDA_SUCCESS;  // the switches
    }
}

// Says each time in the log of errors, and once on standard error, why. Without the lock: who hears may call CUDA.
CUresult refuse(CUcoredumpSettings attribute) {
    static std::atomic<bool> told{false};
    char line[300];
    snprintf(line, sizeof line,
             "%s: not supported: a core dump would be the worker's, on the host; set "
             "CUDA_ENABLE_COREDUMP_ON_EXCEPTION=1 for the bridge",
             attribute == CU_COREDUMP_ENABLE_ON_EXCEPTION ? "CU_COREDUMP_ENABLE_ON_EXCEPTION"
                                                          : "CU_COREDUMP_ENABLE_USER_TRIGGER");
    if (!told.exchange(true, std::memory_order_relaxed)) log_line("%s", line);
    error_log::add(line);
    return CUDA_ERROR_NOT_SUPPORTED;
}

template <class Act> CUresult with(bool program, CUcoredumpSettings attribute, void* value, size_t* size, Act act) {
    if (!Client::initialized()) return CUDA_ERROR_NOT_INITIALIZED;
    const std::size_t bytes = bytes_of(attribute, program);
    if (!bytes || !size) return CUDA_ERROR_INVALID_VALUE;
    const CUcontext context = current_context();
    if (!program && !context) return CUDA_ERROR_INVALID_CONTEXT;
    if (value && !is_text(attribute) && *size != bytes) return CUDA_ERROR_INVALID_VALUE;
    std::lock_guard lock(mutex);
    return act(program ? of_program() : of(context), bytes);
}
CUresult ask(bool program, CUcoredumpSettings attribute, void* value, size_t* size) {
    return with(program, attribute, value, size, [&](Choices& its, std::size_t bytes) {
        if (value) return get(its, attribute, value, *size);
        *size = bytes;
        return CUDA_SUCCESS;
    });
}
CUresult choose(bool program, CUcoredumpSettings attribute, void* value, size_t* size) {
    const CUresult r = with(program, attribute, value, size, [&](Choices& its, std::size_t) {
        return value ? set(its, attribute, value, *size) : CUDA_ERROR_INVALID_VALUE;
    });
    return r == CUDA_ERROR_NOT_SUPPORTED ? refuse(attribute) : r;
}

}  // namespace
}  // namespace barcuda::guest

using namespace barcuda::guest;

CU cuCoredumpGetAttribute(CUcoredumpSettings attribute, void* value, size_t* size) {
    return ask(false, attribute, value, size);
}
CU cuCoredumpGetAttributeGlobal(CUcoredumpSettings attribute, void* value, size_t* size) {
    return ask(true, attribute, value, size);
}
CU cuCoredumpSetAttribute(CUcoredumpSettings attribute, void* value, size_t* size) {
    return choose(false, attribute, value, size);
}
CU cuCoredumpSetAttributeGlobal(CUcoredumpSettings attribute, void* value, size_t* size) {
    return choose(true, attribute, value, size);
}
