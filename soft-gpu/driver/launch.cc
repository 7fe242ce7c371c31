// SPDX-License-Identifier: Apache-2.0
// launch.cc: turns a launch's arguments into a call of the engine, and checks the limits of its shape.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "soft-gpu/driver/context.h"
#include "soft-gpu/driver/driver.h"
#include "soft-gpu/driver/operations.h"

namespace barcuda::soft::driver {
namespace {

// Parameters in one buffer, named by the list `extra`.
std::vector<std::byte> packed_by_caller(void** extra, std::size_t needed) {
    const void* buffer = nullptr;
    std::size_t size = 0;
    for (; *extra != CU_LAUNCH_PARAM_END; extra += 2) {
        if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER) buffer = extra[1];
        else if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE) size = *static_cast<const std::size_t*>(extra[1]);
        else fail(CUDA_ERROR_INVALID_VALUE);
    }
    require(buffer || needed == 0);
    const auto* bytes = static_cast<const std::byte*>(buffer);
    std::vector<std::byte> packed(bytes, bytes + std::min(size, needed));
    packed.resize(needed);  // drivers accept a smaller buffer, too
    return packed;
}

}  // namespace

void check_shape(const Function& function, const LaunchConfig& config) {
    const auto [gx, gy, gz] = config.grid;
    const auto [bx, by, bz] = config.block;
    require(gx != 0 && gy != 0 && gz != 0 && gx <= 0x7fffffff && gy <= 65535 && gz <= 65535);
    require(bx != 0 && by != 0 && bz != 0 && bx <= 1024 && by <= 1024 && bz <= 64);
    const std::uint64_t threads = std::uint64_t{bx} * by * bz;
    require(threads <= 1024);
    const KernelInfo& info = function.info;
    if (info.required_block[0] != 0)
        require(bx == static_cast<unsigned>(info.required_block[0]) &&
                by == static_cast<unsigned>(std::max(info.required_block[1], 1)) &&
                bz == static_cast<unsigned>(std::max(info.required_block[2], 1)));
    require(threads <= static_cast<unsigned>(info.max_threads_per_block));
    require(config.dynamic_shared_bytes <= static_cast<std::size_t>(function.max_dynamic_shared()));
    if (config.cooperative) {
        Limits limits;
        limits.compute_capability = Driver::get().settings.compute_capability();
        limits.multiprocessors = Driver::get().settings.cores;
        const auto resident = static_cast<std::uint64_t>(
            std::max(0, max_active_blocks(limits, info, static_cast<int>(threads), config.dynamic_shared_bytes)));
        require(std::uint64_t{gx} * gy * gz <= resident * static_cast<unsigned>(limits.multiprocessors),
                CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
    }
}

std::shared_ptr<Launch> make_launch(std::shared_ptr<Function> function, const CUlaunchConfig& config, bool cooperative,
                                    void** parameters, void** extra) {
    auto launch = std::make_shared<Launch>();
    function->loaded = true;
    for (unsigned i = 0; i < config.numAttrs; ++i) {
        const CUlaunchAttribute& attribute = config.attrs[i];
        switch (attribute.id) {
            case CU_LAUNCH_ATTRIBUTE_COOPERATIVE: cooperative |= attribute.value.cooperative != 0; break;
            case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
                if (attribute.value.clusterDim.x * attribute.value.clusterDim.y * attribute.value.clusterDim.z > 1)
                    refuse("a launch in clusters (of " + function->info.name + ")");
                break;
            // An event in the middle of a launch, and nodes that kernels change, have observable effects.
            case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT: refuse("CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT");
            case CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT: refuse("CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT");
            case CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE:
                refuse("CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE");
            default: break;  // preferences, which have no effect here
        }
        launch->attributes.push_back(attribute);
    }
    launch->module = function->module.shared_from_this();
    make_references(*launch->module);
    launch->config = {.grid = {config.gridDimX, config.gridDimY, config.gridDimZ},
                      .block = {config.blockDimX, config.blockDimY, config.blockDimZ},
                      .dynamic_shared_bytes = config.sharedMemBytes,
                      .parameters = {},
                      .cooperative = cooperative};
    check_shape(*function, launch->config);
    const KernelInfo& info = function->info;
    if (extra && !parameters) {
        launch->parameters = packed_by_caller(extra, info.parameter_bytes);
    } else {
        require(!extra && (parameters || info.parameters.empty()));
        launch->parameters.resize(info.parameter_bytes);
        for (std::size_t i = 0; i < info.parameters.size(); ++i) {
            require(parameters[i]);
            std::memcpy(launch->parameters.data() + info.parameters[i].offset, parameters[i], info.parameters[i].size);
        }
    }
    launch->function = std::move(function);
    return launch;
}

void Launch::run(Context& context) {
    const Busy busy(context.device);
    LaunchConfig here = config;
    here.parameters = parameters;
    here.multiprocessors = context.limits.multiprocessors;
    look_at_textures();
    tracing::Timed timed([&](tracing::Work& work) {
        work.device = context.device;
        work.context = context.id;
        work.name = function->info.name.c_str();
        std::ranges::copy(config.grid, work.grid);
        std::ranges::copy(config.block, work.block);
        work.static_shared = function->info.static_shared_bytes;
        work.dynamic_shared = config.dynamic_shared_bytes;
        work.local = function->info.local_bytes;
        work.registers = function->info.registers;
        work.cooperative = config.cooperative;
    });
    bool printed = false;
    const auto flush = [&] {
        if (printed) std::fflush(stdout);  // a program that waits for the kernel finds its output written
    };
    try {
        execute(*module->program, function->info, here, Driver::get().space, [&](std::string_view text) {
            std::fwrite(text.data(), 1, text.size(), stdout);
            printed = true;
        });
    } catch (...) {
        flush();
        throw;
    }
    timed.done();
    flush();
}

}  // namespace barcuda::soft::driver
