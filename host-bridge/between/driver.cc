// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/between/driver.h"

#include <dlfcn.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <iterator>

#include <fmt/format.h>

#include "base/cli/home.h"
#include "host-bridge/between/device_choice.h"

namespace barcuda {
namespace {

// Tries NVIDIA's driver in a child process: cuInit leaves threads and state, which the parent of workers must not have.
Failure try_driver(const std::string& library, int stop) {
    int ends[2];
    if (pipe(ends) != 0) return "cannot make a pipe";
    const pid_t child = fork();
    if (child == 0) {
        Driver driver;
        std::string error = driver.open(library).text();
        int count = 0;
        if (error.empty()) {
            if (CUresult r = driver.cuInit(0); r != CUDA_SUCCESS) error = "cuInit: " + driver.error_name(r);
            else if (driver.cuDeviceGetCount(&count) != CUDA_SUCCESS || count == 0) error = "it sees no GPU";
        }
        if (write(ends[1], error.data(), error.size()) < 0) _exit(1);
        _exit(0);
    }
    close(ends[1]);
    if (child < 0) {
        close(ends[0]);
        return "cannot start a process";
    }
    std::string error;
    pollfd said[] = {{ends[0], POLLIN, 0}, {stop, POLLIN, 0}};
    while (poll(said, std::size(said), -1) < 0 && errno == EINTR) {}
    if (said[1].revents) kill(child, SIGKILL);
    char text[512];
    for (ssize_t n; (n = read(ends[0], text, sizeof text)) > 0;) error.append(text, static_cast<std::size_t>(n));
    close(ends[0]);
    int status = 0;
    waitpid(child, &status, 0);
    if (status != 0 && error.empty()) error = "the driver crashed while it was tried";
    return error;
}

}  // namespace

Failure Driver::open(const std::string& name) {
    library = name;
    void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle) return fmt::format("{}", dlerror());
    if (dlsym(handle, "barcuda_guest_library"))
        return library + " is Barcuda's own guest library: run the bridge without its LD_LIBRARY_PATH";
#define X(name, ...) name = reinterpret_cast<decltype(name)>(dlsym(handle, #name));
    BARCUDA_DRIVER_ROWS(X)
#undef X
    handle_file = reinterpret_cast<decltype(handle_file)>(dlsym(handle, "barcuda_soft_handle_file"));
#define X(name) checkpoint.name = reinterpret_cast<decltype(checkpoint.name)>(dlsym(handle, #name));
    X(cuCheckpointProcessLock)
    X(cuCheckpointProcessCheckpoint)
    X(cuCheckpointProcessRestore)
    X(cuCheckpointProcessUnlock)
#undef X
    share_card = reinterpret_cast<decltype(share_card)>(dlsym(handle, "barcuda_soft_card"));
    own_memory = reinterpret_cast<decltype(own_memory)>(dlsym(handle, "barcuda_soft_own_memory"));
    code = reinterpret_cast<decltype(code)>(dlsym(handle, "barcuda_soft_code"));
    if (!cuInit || !cuStreamWriteValue64_v2 || !cuMemHostRegister_v2 || !cuFuncGetParamInfo)
        return library + " is too old: Barcuda needs a CUDA 12.4 driver or newer";
    return {};
}

std::string Driver::error_name(CUresult result) const {
    const char* name = nullptr;
    if (cuGetErrorName && cuGetErrorName(result, &name) == CUDA_SUCCESS && name) return name;
    return fmt::format("CUresult {}", static_cast<int>(result));
}

std::string software_library() { return installed("barcuda-soft/libcuda.so.1"); }

std::string nvml_of(const std::string& library) {
    return std::filesystem::path(library).replace_filename("libnvidia-ml.so.1").string();
}

DeviceChoice choose_device(const std::string& device, int stop) {
    const std::string nvidia = "libcuda.so.1", soft = software_library();
    if (device == "soft") {
        if (access(soft.c_str(), R_OK) == 0) return {soft, true, {}};
        return {
            {}, true, "the software GPU is not installed: " + soft + " is missing (run make, or install barcuda-soft)"};
    }
    const Failure failure = try_driver(nvidia, stop);
    if (!failure) return {nvidia, false, {}};
    if (device == "auto") {
        if (access(soft.c_str(), R_OK) == 0) return {soft, true, {}};
        return {{}, false, "no GPU (" + failure.text() + ") and no software GPU (" + soft + ")"};
    }
    return {{}, false, "no usable GPU: " + failure.text() + "; with --device soft programs run on the CPU instead"};
}

DeviceChoice likely_device(const std::string& device, int stop) {
    for (const char* const door : {"/dev/nvidiactl", "/dev/dxg"})  // Linux's own driver, and the driver under WSL
        if (device != "soft" && access(door, R_OK | W_OK) == 0) return {"libcuda.so.1", false, {}, false};
    return choose_device(device, stop);
}

}  // namespace barcuda
