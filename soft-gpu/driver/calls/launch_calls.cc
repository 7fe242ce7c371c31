// SPDX-License-Identifier: Apache-2.0
// launch_calls.cc: cuLaunch*. A launch becomes an operation of its stream (launch.cc), which the engine executes.
#include "soft-gpu/driver/context.h"
#include "soft-gpu/driver/driver.h"
#include "soft-gpu/driver/module.h"
#include "soft-gpu/driver/operations.h"

namespace barcuda::soft::driver {
namespace {

CUresult launch(CUfunction function, const CUlaunchConfig& config, bool cooperative, void** parameters, void** extra,
                const char* name) {
    return api(
        [&] {
            const auto stream = stream_of(config.hStream);
            try {
                stream->context().post(*stream, make_launch(function_in(stream->context(), function), config,
                                                            cooperative, parameters, extra));
            } catch (const Error&) {
                std::lock_guard order(stream->context().order);
                invalidate_capture(*stream);  // a launch that is refused ends it, too
                throw;
            }
        },
        name);
}

}  // namespace
}  // namespace barcuda::soft::driver

using namespace barcuda::soft::driver;

CUresult cuLaunchKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ,
                        unsigned int blockDimX, unsigned int blockDimY, unsigned int blockDimZ,
                        unsigned int sharedMemBytes, CUstream hStream, void** kernelParams, void** extra) {
    return launch(f,
                  {gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes, hStream, nullptr, 0},
                  false, kernelParams, extra, "cuLaunchKernel");
}
CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction f, void** kernelParams, void** extra) {
    if (!config || (config->numAttrs != 0 && !config->attrs)) return CUDA_ERROR_INVALID_VALUE;
    return launch(f, *config, false, kernelParams, extra, "cuLaunchKernelEx");
}
CUresult cuLaunchCooperativeKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ,
                                   unsigned int blockDimX, unsigned int blockDimY, unsigned int blockDimZ,
                                   unsigned int sharedMemBytes, CUstream hStream, void** kernelParams) {
    return launch(f,
                  {gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes, hStream, nullptr, 0},
                  true, kernelParams, nullptr, "cuLaunchCooperativeKernel");
}
