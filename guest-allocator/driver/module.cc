// SPDX-License-Identifier: Apache-2.0
// module.cc: modules, libraries, functions, kernels. An image, without the code that none of the program's devices can
// run (image.h), is copied into the region, and the worker loads it. What a launch needs to know about a function (the
// offsets and sizes of its parameters, its limits) is asked once and kept.
#include "guest-allocator/driver/module.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <memory>
#include <new>
#include <vector>

#include "guest-allocator/client/command.h"
#include "guest-allocator/client/id_table.h"
#include "guest-allocator/driver/compiler_log.h"
#include "guest-allocator/driver/context.h"
#include "guest-allocator/driver/export.h"
#include "guest-allocator/driver/fence.h"
#include "guest-allocator/driver/image.h"
#include "guest-allocator/driver/managed.h"
#include "guest-allocator/heap/heap.h"
#include "shm-device/queue/wire.h"

namespace barcuda::guest {
namespace {

struct Instance {  // a kernel's function in a context, until that one ends
    CUcontext context;
    std::uint32_t ends;  // of the context, before it was asked
    CUfunction function;
    const Instance* next;
};
struct FunctionRecord {
    std::atomic<const FunctionFacts*> facts;
    std::atomic<const char*> name;
    std::atomic<CUkernel> kernel;  // this one, if it is a kernel
    std::atomic<const Instance*> functions;
};
IdTable<FunctionRecord> functions;  // CUfunction and CUkernel: both are named by the host, from one series of ids

void note_kernel(CUkernel kernel) {
    if (FunctionRecord* k = kernel ? functions.of(kernel) : nullptr) k->kernel.store(kernel, std::memory_order_release);
}

FunctionRecord* kernel_of(CUfunction function) {
    FunctionRecord* k = function ? functions.of(function) : nullptr;
    const auto as_kernel = reinterpret_cast<CUkernel>(function);
    return k && k->kernel.load(std::memory_order_acquire) == as_kernel ? k : nullptr;
}

// Keeps what the worker has told of a function. `asked`: before it was asked. Null: there is no memory.
const FunctionFacts* keep(FunctionRecord& k, const ext::FunctionInfo& info, SharedLimit::Time asked) {
    if (info.prints) module_prints();
    const std::size_t n = info.parameter_count;
    void* room = malloc(sizeof(FunctionFacts) + n * sizeof(FunctionFacts::Parameter));
    if (!room) return nullptr;
    auto* fresh = new (room) FunctionFacts{info.parameter_count,
                                           info.parameter_bytes,
                                           info.max_threads_per_block,
                                           {asked, static_cast<unsigned>(info.max_dynamic_shared)}};
    for (std::size_t i = 0; i < n; ++i) fresh->parameters()[i] = {info.parameters[i].offset, info.parameters[i].size};
    const FunctionFacts* before = nullptr;
    if (k.facts.compare_exchange_strong(before, fresh, std::memory_order_acq_rel)) return fresh;
    free(room);
    return before;
}

// Finds a function, and keeps the facts that came with it, if any did. `older`: of bridges that send none.
template <Op row, Op older, class... Where> CUresult find(CUfunction* function, Where... where) {
    // Too large for a thread's stack, and for the little room that the loader keeps for the variables of threads.
    const std::unique_ptr<ext::FunctionInfo> info(new (std::nothrow) ext::FunctionInfo{});
    if (host_rows::numbers[static_cast<std::size_t>(row)] == no_row || !info) return command<older>(function, where...);
    const SharedLimit::Time asked = SharedLimit::now();
    const CUresult r = command<row>(function, where..., info.get());
    if (r != CUDA_SUCCESS || info->max_threads_per_block == 0) return r;
    if (FunctionRecord* const k = functions.of(*function); k && !k->facts.load(std::memory_order_acquire))
        keep(*k, *info, asked);
    return r;
}

// The function that a handle means, which may be a kernel's.
CUresult resolve(CUfunction& function) {
    FunctionRecord* k = kernel_of(function);
    if (!k) [[likely]]
        return CUDA_SUCCESS;
    const CUcontext context = current_context();
    if (!context) return CUDA_ERROR_INVALID_CONTEXT;
    const std::uint32_t ends = ends_of(context);
    const Instance* first = k->functions.load(std::memory_order_acquire);
    for (const Instance* f = first; f; f = f->next)
        if (f->context == context && f->ends == ends) {
            function = f->function;
            return CUDA_SUCCESS;
        }
    CUfunction found = nullptr;
    const auto kernel = reinterpret_cast<CUkernel>(function);
    if (CUresult r = find<Op::function_of_kernel, Op::cuKernelGetFunction>(&found, kernel); r != CUDA_SUCCESS) return r;
    if (auto* fresh = static_cast<Instance*>(malloc(sizeof(Instance)))) {
        *fresh = {context, ends, found, first};
        while (!k->functions.compare_exchange_weak(fresh->next, fresh, std::memory_order_acq_rel)) {}
    }
    function = found;
    return CUDA_SUCCESS;
}

Mutex& logged() {  // the worker keeps the log of one load
    static Mutex mutex;
    return mutex;
}

// Of all devices that the program sees, since a library may be used on one that gets its context later. Empty if one of
// them does not say.
using Capabilities = std::array<int, BARCUDA_MAX_DEVICES>;
std::span<const int> capabilities(Capabilities& all) {
    int devices = 0, major = 0, minor = 0;
    if (cuDeviceGetCount(&devices) != CUDA_SUCCESS) return {};
    for (int device = 0; device < devices; ++device) {
        if (cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device) != CUDA_SUCCESS ||
            cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device) != CUDA_SUCCESS)
            return {};
        all[static_cast<std::size_t>(device)] = major * 10 + minor;
    }
    return std::span(all).first(static_cast<std::size_t>(devices));
}

template <Op load, class Handle>
CUresult load_bytes(Handle* handle, const void* image, std::size_t bytes, const CompilerLogs& logs) {
    if (has(load, trait::current) && !current_context()) return CUDA_ERROR_INVALID_CONTEXT;  // before anything is sent
    if (!handle) return CUDA_ERROR_INVALID_VALUE;
    Capabilities all;
    const Selection chosen({image, bytes}, capabilities(all));
    const SentImage sent(chosen);
    if (sent.error != CUDA_SUCCESS) return sent.error;
    if (logs.wanted() == ext::no_logs) return command<load>(handle, sent.where(), chosen.bytes(), ext::no_logs);
    std::lock_guard hold(logged());
    const CUresult r = command<load>(handle, sent.where(), chosen.bytes(), logs.wanted());
    logs.fetch();
    return r;
}

template <Op load, class Handle>
CUresult load_image(Handle* handle, const void* image, const CompilerLogs& logs = {0, nullptr, nullptr}) {
    if (!image) return CUDA_ERROR_INVALID_VALUE;
    const Image found = find_image(image);
    return found.start ? load_bytes<load>(handle, found.start, found.bytes, logs) : CUDA_ERROR_INVALID_IMAGE;
}

template <Op load, class Handle>
CUresult load_file(Handle* handle, const char* path, const CompilerLogs& logs = {0, nullptr, nullptr}) {
    if (!path || !handle) return CUDA_ERROR_INVALID_VALUE;
    std::size_t size = 0;
    char* text = read_file(path, size);
    if (struct stat st; !text && stat(path, &st) == 0 && S_ISDIR(st.st_mode)) return CUDA_ERROR_OUT_OF_MEMORY;
    if (!text) return CUDA_ERROR_FILE_NOT_FOUND;
    const CUresult r = load_bytes<load>(handle, text, size + 1, logs);
    free(text);
    return r;
}

template <Op describe, class Handle> const FunctionFacts* facts_of(Handle handle, CUresult& error) {
    FunctionRecord* k = functions.of(handle);
    if (!handle || !k) {
        error = CUDA_ERROR_INVALID_HANDLE;
        return nullptr;
    }
    if (const FunctionFacts* f = k->facts.load(std::memory_order_acquire)) return f;
    // Too large for a thread's stack, and for the little room that the loader keeps for the variables of threads.
    const std::unique_ptr<ext::FunctionInfo> asked_for(new (std::nothrow) ext::FunctionInfo);
    if (!asked_for) {
        error = CUDA_ERROR_OUT_OF_MEMORY;
        return nullptr;
    }
    const SharedLimit::Time asked = SharedLimit::now();
    if ((error = command<describe>(handle, asked_for.get())) != CUDA_SUCCESS) return nullptr;
    const FunctionFacts* const kept = keep(*k, *asked_for, asked);
    if (!kept) error = CUDA_ERROR_OUT_OF_MEMORY;
    return kept;
}

template <Op ask, class Handle> CUresult name_of(const char** name, Handle handle) {
    FunctionRecord* k = functions.of(handle);
    if (!name || !handle || !k) return CUDA_ERROR_INVALID_VALUE;
    if (!k->name.load(std::memory_order_acquire)) {
        char text[4096];  // a mangled name of C++ templates can be long
        if (CUresult r = command<ask>(handle, static_cast<char*>(text), sizeof text); r != CUDA_SUCCESS) return r;
        text[sizeof text - 1] = 0;
        // Not strdup: the program's malloc, which libc calls, need not be the one that our free belongs to.
        auto* const kept = static_cast<char*>(malloc(strlen(text) + 1));
        if (kept) strcpy(kept, text);
        const char* before = nullptr;
        if (kept && !k->name.compare_exchange_strong(before, kept, std::memory_order_acq_rel)) free(kept);
    }
    *name = k->name.load(std::memory_order_acquire);
    return *name ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult parameter_info(const FunctionFacts* f, CUresult error, std::size_t index, std::size_t* offset,
                        std::size_t* size) {
    if (!f) return error;
    if (!offset || index >= f->parameter_count) return CUDA_ERROR_INVALID_VALUE;
    *offset = f->parameters()[index].offset;
    if (size) *size = f->parameters()[index].size;
    return CUDA_SUCCESS;
}

Mutex& parts() {
    static Mutex mutex;
    return mutex;
}

}  // namespace

// A large image would make the kernel provide pages of the region that are used only once; commands use theirs many
// times.
constexpr std::size_t small_image = 1 << 20;
constexpr bool is_staged(std::size_t bytes) { return bytes <= small_image || bytes > wire::most_image_parts; }

SentImage::SentImage(const Selection& image) noexcept
    : staged_(is_staged(image.bytes()) ? heap::staging_alloc(image.bytes()) : nullptr) {
    if (auto* to = static_cast<std::byte*>(staged_)) {
        for (const Image& piece : image.pieces()) {
            memcpy(to, piece.start, piece.bytes);
            to += piece.bytes;
        }
    } else {
        send_parts(image);
    }
}

void SentImage::send_parts(const Selection& image) noexcept {
    lock_ = std::unique_lock(parts());
    if (host_rows::numbers[static_cast<std::size_t>(Op::image_piece)] != no_row) return send_pieces(image);
    std::size_t sent = 0;  // to an older bridge, which answers each
    for (const Image& piece : image.pieces()) {
        const auto* at = static_cast<const std::byte*>(piece.start);
        for (std::size_t left = piece.bytes, n; left && error == CUDA_SUCCESS; at += n, sent += n, left -= n) {
            n = std::min<std::size_t>(left, 256 << 10);
            error = command<Op::image_part>(sent, static_cast<const void*>(at), n);
        }
    }
}

// The worker copies one piece while this thread writes the next. Several fit into the command memory.
void SentImage::send_pieces(const Selection& image) noexcept {
    error = command<Op::image_begin>(image.bytes());
    for (const Image& piece : image.pieces()) {
        const auto* at = static_cast<const std::byte*>(piece.start);
        for (std::size_t left = piece.bytes, n; left && error == CUDA_SUCCESS; at += n, left -= n) {
            n = std::min<std::size_t>(left, 128 << 10);
            error = command<Op::image_piece>(static_cast<const void*>(at), n);
        }
    }
}

SentImage::~SentImage() {
    if (staged_) heap::staging_free(staged_);
}

char* read_file(const char* path, std::size_t& size) noexcept {
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    if (fd < 0) return nullptr;
    size = fstat(fd, &st) == 0 ? static_cast<std::size_t>(st.st_size) : 0;
    char* text = static_cast<char*>(malloc(size + 1));
    std::size_t got = 0;
    for (ssize_t n; text && got < size && (n = read(fd, text + got, size - got)) > 0;)
        got += static_cast<std::size_t>(n);
    close(fd);
    if (text && got == size) {
        text[got] = 0;
        return text;
    }
    free(text);
    return nullptr;
}

CUfunction real(CUfunction function) noexcept {
    resolve(function);
    return function;
}
bool is_kernel(CUfunction function) noexcept { return kernel_of(function); }

const FunctionFacts* facts(CUfunction function, CUresult& error) noexcept {
    if ((error = resolve(function)) != CUDA_SUCCESS) return nullptr;
    return facts_of<Op::describe_function>(function, error);
}

}  // namespace barcuda::guest

using namespace barcuda::guest;

CU cuModuleLoadData(CUmodule* module, const void* image) { return load_image<Op::load_module>(module, image); }
CU cuModuleLoadFatBinary(CUmodule* module, const void* image) { return load_image<Op::load_module>(module, image); }
CU cuModuleLoad(CUmodule* module, const char* path) { return load_file<Op::load_module>(module, path); }

// As NVIDIA's driver (580) looks at them: what names a buffer, a list or a number of registers has one, and a size of
// none has a buffer.
static bool are_options(const CUjit_option* options, void* const* values, unsigned count) {
    if (count && (!options || !values)) return false;
    const auto has = [&](CUjit_option option) {
        for (unsigned i = 0; i < count; ++i)
            if (options[i] == option && values[i]) return true;
        return false;
    };
    for (unsigned i = 0; i < count; ++i) {
        if (options[i] < 0 || options[i] >= CU_JIT_NUM_OPTIONS) return false;
        if (values[i]) continue;
        switch (options[i]) {
            case CU_JIT_MAX_REGISTERS:
            case CU_JIT_INFO_LOG_BUFFER:
            case CU_JIT_ERROR_LOG_BUFFER:
            case CU_JIT_GLOBAL_SYMBOL_NAMES:
            case CU_JIT_GLOBAL_SYMBOL_ADDRESSES:
            case CU_JIT_GLOBAL_SYMBOL_COUNT:
            case CU_JIT_REFERENCED_KERNEL_NAMES:
            case CU_JIT_REFERENCED_VARIABLE_NAMES: return false;
            case CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES:
                if (!has(CU_JIT_INFO_LOG_BUFFER)) return false;
                break;
            case CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES:
                if (!has(CU_JIT_ERROR_LOG_BUFFER)) return false;
                break;
            default: break;
        }
    }
    return true;
}
// Of options that are not passed on, as NVIDIA's compiler (580) says it of PTX: it has no code for what is no target,
// and does not know one option any more. Machine code needs no compiler.
static CUresult compiler_says(CUjit_option option, const void* value) {
    if (option == CU_JIT_NEW_SM3X_OPT) return CUDA_ERROR_INVALID_PTX;
    const auto target = reinterpret_cast<std::uintptr_t>(value);
    return option == CU_JIT_TARGET && target < CU_TARGET_COMPUTE_30 ? CUDA_ERROR_INVALID_IMAGE : CUDA_SUCCESS;
}
CU cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned count, CUjit_option* options, void** values) {
    if (!are_options(options, values, count)) return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < count && is_text(find_image(image)); ++i)
        if (const CUresult r = compiler_says(options[i], values[i])) return r;
    return load_image<Op::load_module>(module, image, {count, options, values});
}

// Options of libraries say how memory is shared with the host's code; the known ones change nothing here.
static bool are_options(const CUlibraryOption* options, unsigned count) {
    return !count || (options && std::all_of(options, options + count, [](CUlibraryOption option) {
                          return option >= 0 && option < CU_LIBRARY_NUM_OPTIONS;
                      }));
}
CU cuLibraryLoadData(CUlibrary* library, const void* code, CUjit_option* options, void** values, unsigned count,
                     CUlibraryOption* its, void**, unsigned its_count) {
    if ((count && (!options || !values)) || !are_options(its, its_count)) return CUDA_ERROR_INVALID_VALUE;
    return load_image<Op::load_library>(library, code, {count, options, values});
}

CU cuLibraryLoadFromFile(CUlibrary* library, const char* path, CUjit_option* options, void** values, unsigned count,
                         CUlibraryOption* its, void**, unsigned its_count) {
    if ((count && (!options || !values)) || !are_options(its, its_count)) return CUDA_ERROR_INVALID_VALUE;
    return load_file<Op::load_library>(library, path, {count, options, values});
}

CU cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
    return find<Op::find_function, Op::cuModuleGetFunction>(function, module, name);
}
CU cuKernelGetFunction(CUfunction* function, CUkernel kernel) {
    return find<Op::function_of_kernel, Op::cuKernelGetFunction>(function, kernel);
}

CU cuModuleGetLoadingMode(CUmoduleLoadingMode* mode) {
    if (!mode) return CUDA_ERROR_INVALID_VALUE;
    *mode = CU_MODULE_LAZY_LOADING;
    return CUDA_SUCCESS;
}

// NVIDIA's driver (580.159) crashes at an attribute below the first.
static bool is_attribute(CUfunction_attribute a) { return a >= 0 && a < CU_FUNC_ATTRIBUTE_MAX; }
CU cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value) {
    if (!is_attribute(attribute)) return CUDA_ERROR_INVALID_VALUE;
    CUresult unknown;
    const bool limit = attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES && value >= 0;
    const FunctionFacts* f = limit ? facts(function, unknown) : nullptr;
    const bool own = f && f->own_limit.load(std::memory_order_relaxed);
    if (own && f->shared.is(static_cast<unsigned>(value))) return CUDA_SUCCESS;  // programs say it before each launch
    const SharedLimit::Time before = SharedLimit::now();
    const CUresult r = command<Op::cuFuncSetAttribute>(function, attribute, value);
    if (f && r == CUDA_SUCCESS) {
        f->own_limit.store(true, std::memory_order_relaxed);
        f->shared.set(before, static_cast<unsigned>(value));
    }
    return r;
}
CU cuKernelSetAttribute(CUfunction_attribute attribute, int value, CUkernel kernel, CUdevice device) {
    if (!is_attribute(attribute)) return CUDA_ERROR_INVALID_VALUE;
    // What is set for a kernel applies to its functions in all contexts of the device, except those with a limit of
    // their own. Known if there is one context.
    CUresult unknown;
    CUdevice current = 0;
    const bool limit = attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES && value >= 0 &&
                       !several_contexts() && cuCtxGetDevice(&current) == CUDA_SUCCESS && current == device;
    const FunctionFacts* f = limit ? facts(reinterpret_cast<CUfunction>(kernel), unknown) : nullptr;
    const bool own = f && f->own_limit.load(std::memory_order_relaxed);
    if (f && !own && f->shared.is(static_cast<unsigned>(value))) return CUDA_SUCCESS;  // as in cuFuncSetAttribute
    const CUresult r = command<Op::cuKernelSetAttribute>(attribute, value, kernel, device);
    const SharedLimit::Time now = SharedLimit::set_somewhere();
    if (f && !own && r == CUDA_SUCCESS) f->shared.set(now, static_cast<unsigned>(value));
    return r;
}

CU cuFuncGetParamInfo(CUfunction function, size_t index, size_t* offset, size_t* size) {
    CUresult error = CUDA_SUCCESS;
    const FunctionFacts* f = facts(function, error);
    return parameter_info(f, error, index, offset, size);
}
CU cuKernelGetParamInfo(CUkernel kernel, size_t index, size_t* offset, size_t* size) {
    CUresult error = CUDA_SUCCESS;
    const FunctionFacts* f = facts_of<Op::describe_kernel>(kernel, error);
    return parameter_info(f, error, index, offset, size);
}
CU cuFuncGetName(const char** name, CUfunction function) {
    if (CUresult r = resolve(function); r != CUDA_SUCCESS) return r;
    return name_of<Op::function_name>(name, function);
}
CU cuKernelGetName(const char** name, CUkernel kernel) { return name_of<Op::kernel_name>(name, kernel); }

CU cuLibraryEnumerateKernels(CUkernel* kernels, unsigned room, CUlibrary library) {
    if (room && !kernels) return CUDA_ERROR_INVALID_VALUE;
    std::vector<CUkernel> found(room);  // the rest of the program's own stays as it was
    const CUresult r = command<Op::cuLibraryEnumerateKernels>(found.data(), room, library);
    for (unsigned i = 0; r == CUDA_SUCCESS && i < room && found[i]; ++i) note_kernel(kernels[i] = found[i]);
    return r;
}
CU cuLibraryGetKernel(CUkernel* kernel, CUlibrary library, const char* name) {
    const CUresult r = command<Op::cuLibraryGetKernel>(kernel, library, name);
    if (r == CUDA_SUCCESS) note_kernel(*kernel);
    return r;
}

CU cuLibraryUnload(CUlibrary library) {
    const CUresult r = command<Op::cuLibraryUnload>(library);
    if (r == CUDA_SUCCESS) managed::unloaded(reinterpret_cast<std::uint64_t>(library));
    return r;
}
