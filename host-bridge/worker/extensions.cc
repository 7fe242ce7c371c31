// extensions.cc: what the extension commands do in the worker. Their parameters have been checked by their kinds.
#include "shm-device/extensions.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>

#include "host-bridge/worker/session.h"
#include "host-bridge/fatbin.h"

namespace barcuda::ext {
namespace {

const Driver& driver() { return session().driver(); }

// Whether kernels of this image may print: they then name the function that does it. nvcc packs what it writes. Bytes
// that cannot be unpacked are the driver's to judge.
bool may_print(const std::string& image) {
    constexpr std::string_view name = "vprintf";
    if (image.find(name) != image.npos) return true;
    try {
        for (const fatbin::Entry& entry : fatbin::entries(std::as_bytes(std::span(image))))
            if (fatbin::bytes_of(entry).find(name) != std::string::npos) return true;
    } catch (const std::exception&) {
    } catch (const fatbin::Error&) {}
    return false;
}

std::unique_ptr<CompilerLog> log_of(Logs wanted) {
    return wanted == no_logs ? nullptr : std::make_unique<CompilerLog>(wanted == verbose_logs);
}
CUresult tell(const CompilerLog* log, unsigned errors, char* text, std::size_t room, std::uint64_t* used) {
    const std::string_view said = !log ? std::string_view("") : errors ? log->errors() : log->information();
    *used = std::min(said.size(), room);
    std::memset(text, 0, room);
    std::memcpy(text, said.data(), *used);
    return CUDA_SUCCESS;
}

// `load` gets the options as well.
template <class Handle, class Load>
CUresult load(Handle* handle, const void* image, std::size_t bytes, Logs wanted, Load load) {
    // The guest could change the image while the driver parses it: the driver gets a private copy, ended by a NUL for
    // PTX text.
    const std::string copy(static_cast<const char*>(image), bytes);
    if (!session().prints()) session().prints() = may_print(copy);
    auto log = log_of(wanted);
    if (!log) return load(handle, copy.c_str(), 0, nullptr, nullptr);
    const CUresult r = load(handle, copy.c_str(), CompilerLog::count, log->options(), log->values());
    session().load_log() = std::move(log);
    return r;
}

template <class Handle, class Info> CUresult describe(Handle handle, FunctionInfo* info, Info parameter) {
    *info = {};
    for (std::size_t i = 0;; ++i) {
        std::size_t offset = 0, size = 0;
        const CUresult r = parameter(handle, i, &offset, &size);
        if (r == CUDA_ERROR_INVALID_VALUE) break;
        if (r != CUDA_SUCCESS) return r;
        if (i == max_parameters || offset + size > 0x7fff) return CUDA_ERROR_NOT_SUPPORTED;
        info->parameters[i] = {static_cast<std::uint16_t>(offset), static_cast<std::uint16_t>(size)};
        info->parameter_count = static_cast<std::uint32_t>(i + 1);
        info->parameter_bytes = static_cast<std::uint32_t>(offset + size);
    }
    info->prints = session().prints();
    return CUDA_SUCCESS;
}

// Pointers to the parameters of a packed run.
CUresult point(void** each, CUfunction function, const void* packed, std::size_t bytes) {
    for (std::size_t i = 0;; ++i) {
        std::size_t offset = 0, size = 0;
        if (driver().cuFuncGetParamInfo(function, i, &offset, &size) != CUDA_SUCCESS) return CUDA_SUCCESS;
        if (i == max_parameters || offset + size > bytes) return CUDA_ERROR_INVALID_VALUE;
        each[i] = static_cast<char*>(const_cast<void*>(packed)) + offset;
    }
}

// A driver's handle for the bridge's token, or the other way round.
template <class Outer> CUresult exchange(Outer& outer, CUresult (Granter::*how)(Shared::Kind, Shared::Handle&)) {
    constexpr auto kind = std::is_same_v<Outer, CUipcMemHandle> ? Shared::Kind::memory : Shared::Kind::event;
    Shared::Handle inner;
    static_assert(sizeof inner == sizeof outer.reserved);
    std::memcpy(inner.data(), outer.reserved, sizeof inner);
    const CUresult r = (session().granter().*how)(kind, inner);
    if (r == CUDA_SUCCESS) std::memcpy(outer.reserved, inner.data(), sizeof inner);
    return r;
}

}  // namespace

// What they have promised, their kind (`fence`) has told the session.
CUresult write_fence(CUstream stream, Fence) { return session().write_fence(stream); }

CUresult record_event(CUevent event, CUstream stream, unsigned flags, Fence) {
    const CUresult r = driver().cuEventRecordWithFlags(event, stream, flags);
    return r == CUDA_SUCCESS && !session().capturing(stream) ? session().write_fence(stream) : r;
}

namespace {
// A launch as cuLaunchKernelEx takes it.
struct Config {
    CUlaunchAttribute attributes[3] = {};
    CUlaunchConfig config;
    Config(const Shape& s, CUstream stream)
        : config{s.grid[0],  s.grid[1],      s.grid[2], s.block[0], s.block[1],
                 s.block[2], s.shared_bytes, stream,    attributes, 0} {
        if (s.clustered()) {
            next(CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION).clusterDim = {s.cluster[0], s.cluster[1], s.cluster[2]};
            next(CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE).clusterSchedulingPolicyPreference =
                static_cast<CUclusterSchedulingPolicy>(s.spread);
        }
        if (s.cooperative) next(CU_LAUNCH_ATTRIBUTE_COOPERATIVE).cooperative = 1;
    }
    CUlaunchAttributeValue& next(CUlaunchAttributeID id) {
        CUlaunchAttribute& a = attributes[config.numAttrs++];
        a.id = id;
        return a.value;
    }
    Config(const Config&) = delete;
};
}  // namespace

CUresult active_clusters(int* clusters, CUfunction function, Shape shape) {
    if (!driver().cuOccupancyMaxActiveClusters) return CUDA_ERROR_NOT_SUPPORTED;
    const Config config(shape, nullptr);
    return driver().cuOccupancyMaxActiveClusters(clusters, function, &config.config);
}
CUresult cluster_size(int* blocks, CUfunction function, Shape shape) {
    if (!driver().cuOccupancyMaxPotentialClusterSize) return CUDA_ERROR_NOT_SUPPORTED;
    const Config config(shape, nullptr);
    return driver().cuOccupancyMaxPotentialClusterSize(blocks, function, &config.config);
}

CUresult encode_tiled(CUtensorMap* map, TensorMap t) {
    if (!driver().cuTensorMapEncodeTiled) return CUDA_ERROR_NOT_SUPPORTED;
    if (t.rank > 5) return CUDA_ERROR_INVALID_VALUE;
    return driver().cuTensorMapEncodeTiled(map, t.type, t.rank, reinterpret_cast<void*>(t.address), t.dimensions,
                                           t.strides, t.box, t.element_strides, t.interleave, t.swizzle, t.promotion,
                                           t.fill);
}
CUresult encode_im2col(CUtensorMap* map, TensorMap t) {
    if (!driver().cuTensorMapEncodeIm2col) return CUDA_ERROR_NOT_SUPPORTED;
    if (t.rank > 5) return CUDA_ERROR_INVALID_VALUE;
    return driver().cuTensorMapEncodeIm2col(map, t.type, t.rank, reinterpret_cast<void*>(t.address), t.dimensions,
                                            t.strides, t.lower, t.upper, t.channels, t.pixels, t.element_strides,
                                            t.interleave, t.swizzle, t.promotion, t.fill);
}

CUresult replace_address(CUtensorMap* map, CUdeviceptr address) {
    if (!driver().cuTensorMapReplaceAddress) return CUDA_ERROR_NOT_SUPPORTED;
    return driver().cuTensorMapReplaceAddress(map, reinterpret_cast<void*>(address));
}

CUresult launch(CUfunction function, Shape shape, CUstream stream, const void* parameters, std::size_t bytes) {
    return shape.cooperative || shape.clustered()
               ? try_launch(function, shape, stream, parameters, bytes)
               : session().launches().take(function, shape, stream, parameters, bytes);
}

CUresult try_launch(CUfunction function, Shape s, CUstream stream, const void* parameters, std::size_t bytes) {
    session().launches().give();
    if (s.clustered()) {
        void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, const_cast<void*>(parameters), CU_LAUNCH_PARAM_BUFFER_SIZE,
                         &bytes, CU_LAUNCH_PARAM_END};
        const Config config(s, stream);
        return driver().cuLaunchKernelEx ? driver().cuLaunchKernelEx(&config.config, function, nullptr, extra)
                                         : CUDA_ERROR_NOT_SUPPORTED;
    }
    if (!s.cooperative) return session().launches().launch({function, s, parameters, bytes}, stream);
    // The cooperative entry takes parameters one by one: their offsets come from the driver.
    void* each[max_parameters];
    if (CUresult r = point(each, function, parameters, bytes); r != CUDA_SUCCESS) return r;
    return driver().cuLaunchCooperativeKernel(function, s.grid[0], s.grid[1], s.grid[2], s.block[0], s.block[1],
                                              s.block[2], s.shared_bytes, stream, each);
}

CUresult copy_in(CUdeviceptr to, const void* bytes, std::size_t size, CUstream stream) {
    return driver().cuMemcpyHtoDAsync_v2(to, bytes, size,
                                         stream);  // from pageable memory: staged before the call returns
}

CUresult copy_out(void* bytes, CUdeviceptr from, std::size_t size, CUstream stream) {
    if (!session().done(stream)) return CUDA_ERROR_NOT_READY;
    if (CUresult r = driver().cuMemcpyDtoHAsync_v2(bytes, from, size, stream); r != CUDA_SUCCESS) return r;
    return driver().cuStreamSynchronize(stream);
}

namespace {
bool packed(const CUDA_MEMCPY3D& c, std::size_t size) {
    if (c.WidthInBytes == 0 || c.Height == 0 || c.Depth == 0 || c.WidthInBytes > size) return false;
    if (c.Height > size / c.WidthInBytes || c.Depth > size / c.WidthInBytes / c.Height) return false;
    return c.WidthInBytes * c.Height * c.Depth == size;
}
}  // namespace

CUresult box_in(const CUDA_MEMCPY3D* box, const void* bytes, std::size_t size, CUstream stream) {
    if (!packed(*box, size)) return CUDA_ERROR_INVALID_VALUE;
    CUDA_MEMCPY3D c = *box;
    c.srcMemoryType = CU_MEMORYTYPE_HOST, c.srcHost = bytes, c.srcDevice = 0, c.srcArray = nullptr;
    c.srcPitch = c.WidthInBytes, c.srcHeight = c.Height, c.srcXInBytes = c.srcY = c.srcZ = 0;
    return driver().cuMemcpy3DAsync_v2(&c, stream);  // staged before the call returns, as in copy_in
}

CUresult box_out(const CUDA_MEMCPY3D* box, void* bytes, std::size_t size, CUstream stream) {
    if (!packed(*box, size)) return CUDA_ERROR_INVALID_VALUE;
    if (!session().done(stream)) return CUDA_ERROR_NOT_READY;
    CUDA_MEMCPY3D c = *box;
    c.dstMemoryType = CU_MEMORYTYPE_HOST, c.dstHost = bytes, c.dstDevice = 0, c.dstArray = nullptr;
    c.dstPitch = c.WidthInBytes, c.dstHeight = c.Height, c.dstXInBytes = c.dstY = c.dstZ = 0;
    if (CUresult r = driver().cuMemcpy3DAsync_v2(&c, stream); r != CUDA_SUCCESS) return r;
    return driver().cuStreamSynchronize(stream);
}

CUresult create_context(CUcontext* context, unsigned flags, CUdevice device) {
    if (!driver().cuCtxCreate_v4) return CUDA_ERROR_NOT_SUPPORTED;  // a driver before CUDA 12.5
    CUresult r = driver().cuCtxCreate_v4(context, nullptr, flags, device);
    return r == CUDA_SUCCESS ? session().context_ready(*context) : r;
}

CUresult retain_primary(CUcontext* context, CUdevice device) {
    CUresult r = driver().cuDevicePrimaryCtxRetain(context, device);
    if (r == CUDA_SUCCESS) r = session().context_ready(*context);
    if (r == CUDA_SUCCESS) session().note_primary(device);
    return r;
}

CUresult reset_primary(CUdevice device) {
    session().tidy(true);
    session().extents().unregister_all(driver());
    CUresult r = driver().cuDevicePrimaryCtxReset_v2(device);
    session().primary_gone(device);
    return r;
}

CUresult settle(CUstream stream) {
    return session().done(stream) ? driver().cuStreamSynchronize(stream) : CUDA_ERROR_NOT_READY;
}

CUresult settle_event(CUevent event) {
    const CUresult r = driver().cuEventQuery(event);
    return r == CUDA_SUCCESS ? driver().cuEventSynchronize(event) : r;
}

CUresult share_memory(CUipcMemHandle* token, CUdeviceptr address) {
    if (!driver().cuIpcGetMemHandle) return CUDA_ERROR_NOT_SUPPORTED;
    if (CUresult r = driver().cuIpcGetMemHandle(token, address); r != CUDA_SUCCESS) return r;
    session().note_shared(address);
    return exchange(*token, &Granter::share);
}
CUresult open_memory(CUdeviceptr* address, CUipcMemHandle token, unsigned flags) {
    if (!driver().cuIpcOpenMemHandle_v2) return CUDA_ERROR_NOT_SUPPORTED;
    CUresult r = exchange(token, &Granter::find_shared);
    if (r == CUDA_SUCCESS) r = driver().cuIpcOpenMemHandle_v2(address, token, flags);
    if (r == CUDA_SUCCESS) session().note_opened(*address);
    return r;
}
CUresult close_memory(CUdeviceptr address) { return session().close_when_idle(address); }
CUresult share_event(CUipcEventHandle* token, CUevent event) {
    if (!driver().cuIpcGetEventHandle) return CUDA_ERROR_NOT_SUPPORTED;
    const CUresult r = driver().cuIpcGetEventHandle(token, event);
    return r == CUDA_SUCCESS ? exchange(*token, &Granter::share) : r;
}
CUresult open_event(CUevent* event, CUipcEventHandle token) {
    if (!driver().cuIpcOpenEventHandle) return CUDA_ERROR_NOT_SUPPORTED;
    const CUresult r = exchange(token, &Granter::find_shared);
    return r == CUDA_SUCCESS ? driver().cuIpcOpenEventHandle(event, token) : r;
}

CUresult allocate(CUdeviceptr* address, std::size_t bytes) { return session().allocate(*address, bytes); }
CUresult free_idle(CUdeviceptr address) { return session().free_when_idle(address); }
CUresult unload_module(CUmodule module) { return session().unload_when_idle(module, nullptr); }
CUresult unload_library(CUlibrary library) { return session().unload_when_idle(nullptr, library); }
CUresult destroy_pool(CUmemoryPool pool) {
    CUdevice device = 0;
    CUmemoryPool always = nullptr, used = nullptr;
    if (driver().cuCtxGetDevice(&device) == CUDA_SUCCESS &&
        driver().cuDeviceGetDefaultMemPool(&always, device) == CUDA_SUCCESS &&
        driver().cuDeviceGetMemPool(&used, device) == CUDA_SUCCESS) {
        if (pool == always) return CUDA_ERROR_INVALID_VALUE;
        if (pool == used) driver().cuDeviceSetMemPool(device, always);  // as when the driver destroys it
    }
    return session().destroy_when_idle(pool);
}

CUresult image_part(std::size_t place, const void* bytes, std::size_t size) {
    return session().add_part(place, bytes, size) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult load_module(CUmodule* module, const void* image, std::size_t bytes, Logs wanted) {
    return load(module, image, bytes, wanted, driver().cuModuleLoadDataEx);
}

CUresult load_library(CUlibrary* library, const void* image, std::size_t bytes, Logs wanted) {
    return load(library, image, bytes, wanted,
                [](CUlibrary* l, const void* code, unsigned count, CUjit_option* options, void** values) {
                    return driver().cuLibraryLoadData(l, code, options, values, count, nullptr, nullptr, 0);
                });
}

CUresult load_log(unsigned errors, char* text, std::size_t room, std::uint64_t* used) {
    return tell(session().load_log().get(), errors, text, room, used);
}

CUresult describe_function(CUfunction function, FunctionInfo* info) {
    if (CUresult r = describe(function, info, driver().cuFuncGetParamInfo); r != CUDA_SUCCESS) return r;
    if (CUresult r = driver().cuFuncGetAttribute(&info->max_dynamic_shared,
                                                 CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, function);
        r != CUDA_SUCCESS)
        return r;
    return driver().cuFuncGetAttribute(&info->max_threads_per_block, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function);
}

CUresult describe_kernel(CUkernel kernel, FunctionInfo* info) {
    return describe(kernel, info, driver().cuKernelGetParamInfo);
}

namespace {
template <class Handle, class Ask> CUresult name_of(Handle handle, char* name, std::size_t room, Ask ask) {
    const char* text = nullptr;
    if (!ask || room == 0) return CUDA_ERROR_NOT_SUPPORTED;
    if (CUresult r = ask(&text, handle); r != CUDA_SUCCESS) return r;
    std::strncpy(name, text, room - 1);
    return CUDA_SUCCESS;
}
}  // namespace
CUresult function_name(CUfunction f, char* name, std::size_t room) {
    return name_of(f, name, room, driver().cuFuncGetName);
}
CUresult kernel_name(CUkernel k, char* name, std::size_t room) {
    return name_of(k, name, room, driver().cuKernelGetName);
}

CUresult pointer_attribute(std::uint64_t* value, CUpointer_attribute attribute, CUdeviceptr address) {
    switch (attribute) {
        case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        case CU_POINTER_ATTRIBUTE_MAPPED:
        case CU_POINTER_ATTRIBUTE_BUFFER_ID:
        case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS: break;
        default: return CUDA_ERROR_NOT_SUPPORTED;
    }
    void* values[] = {value};
    *value = 0;
    return driver().cuPointerGetAttributes(1, &attribute, values, address);
}

CUresult grant(std::size_t bytes, std::uint64_t* offset, std::uint64_t* granted) {
    if (CUresult r = session().granter().grant(bytes, *offset, *granted); r != CUDA_SUCCESS) return r;
    if (std::string error = session().extents().map(*offset, *granted); !error.empty()) return CUDA_ERROR_OUT_OF_MEMORY;
    return session().register_extents();
}

CUresult give_back(std::uint64_t offset, std::uint64_t bytes) { return session().give_back_when_idle(offset, bytes); }

CUresult enumerate_functions(CUfunction* functions, std::size_t* count, CUmodule module) {
    unsigned all = 0;
    if (CUresult r = driver().cuModuleGetFunctionCount(&all, module); r != CUDA_SUCCESS) return r;
    const unsigned wanted = std::min<std::size_t>(*count, all);
    *count = wanted;
    return functions ? driver().cuModuleEnumerateFunctions(functions, wanted, module) : CUDA_SUCCESS;
}
CUresult enumerate_kernels(CUkernel* kernels, std::size_t* count, CUlibrary library) {
    unsigned all = 0;
    if (CUresult r = driver().cuLibraryGetKernelCount(&all, library); r != CUDA_SUCCESS) return r;
    const unsigned wanted = std::min<std::size_t>(*count, all);
    *count = wanted;
    return kernels ? driver().cuLibraryEnumerateKernels(kernels, wanted, library) : CUDA_SUCCESS;
}

CUresult pool_attribute(CUmemoryPool pool, CUmemPool_attribute attribute, std::uint64_t* value) {
    *value = 0;
    return driver().cuMemPoolGetAttribute(pool, attribute, value);
}
CUresult set_pool_attribute(CUmemoryPool pool, CUmemPool_attribute attribute, std::uint64_t value) {
    return driver().cuMemPoolSetAttribute(pool, attribute, &value);
}
CUresult graph_memory_attribute(CUdevice device, CUgraphMem_attribute attribute, std::uint64_t* value) {
    *value = 0;
    return driver().cuDeviceGetGraphMemAttribute(device, attribute, value);
}
CUresult set_graph_memory_attribute(CUdevice device, CUgraphMem_attribute attribute, std::uint64_t value) {
    return driver().cuDeviceSetGraphMemAttribute(device, attribute, &value);
}

CUresult link_create(CUlinkState* state, Logs wanted) {
    auto log = log_of(wanted);
    const CUresult r = log ? driver().cuLinkCreate_v2(CompilerLog::count, log->options(), log->values(), state)
                           : driver().cuLinkCreate_v2(0, nullptr, nullptr, state);
    if (r == CUDA_SUCCESS) session().links()[*state].log = std::move(log);
    return r;
}
CUresult link_add(CUlinkState state, CUjitInputType type, const void* image, std::size_t bytes, const char* name) {
    std::string copy(static_cast<const char*>(image), bytes);  // as load() does
    return driver().cuLinkAddData_v2(state, type, copy.data(), bytes, name, 0, nullptr, nullptr);
}
CUresult link_complete(CUlinkState state, std::size_t* bytes) {
    void* image = nullptr;
    const CUresult r = driver().cuLinkComplete(state, &image, bytes);
    if (r == CUDA_SUCCESS) session().links()[state].image = image, session().links()[state].bytes = *bytes;
    return r;
}
CUresult link_fetch(CUlinkState state, void* to, std::size_t bytes) {
    const Session::Link& link = session().links()[state];
    if (!link.image || link.bytes != bytes) return CUDA_ERROR_INVALID_VALUE;
    std::memcpy(to, link.image, bytes);
    return CUDA_SUCCESS;
}
CUresult link_log(CUlinkState state, unsigned errors, char* text, std::size_t room, std::uint64_t* used) {
    return tell(session().links()[state].log.get(), errors, text, room, used);
}
// Device printf goes to the worker's standard output, which is a file in memory (worker.cc), and the text of a failed
// assert to its standard error (errors.h): the client collects them here.
CUresult take_output(unsigned errors, char* text, std::size_t room, std::uint64_t* used) {
    if (errors) return *used = session().errors().take(text, room), CUDA_SUCCESS;
    std::fflush(stdout);
    const ssize_t n = pread(STDOUT_FILENO, text, room, session().output_taken());
    *used = n > 0 ? static_cast<std::uint64_t>(n) : 0;
    session().output_taken() += static_cast<off_t>(*used);
    // What is taken needs no memory. The file keeps its length: a kernel may be printing meanwhile, behind its end.
    if (n > 0) fallocate(STDOUT_FILENO, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, session().output_taken());
    return CUDA_SUCCESS;
}

}  // namespace barcuda::ext
