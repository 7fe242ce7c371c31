#include "host-bridge/worker/libraries.h"

#include <dlfcn.h>
#include <spdlog/spdlog.h>

namespace barcuda {

Libraries::Libraries(const std::string& driver) : folder_(driver, 0, driver.rfind('/') + 1) {}

// The first of these that there is: where the system looks, or where the toolkit puts it.
void* Libraries::find(std::initializer_list<const char*> names) const {
    const std::string places[] = {folder_, "/usr/local/cuda/lib64/"};
    for (const std::string& place : places)
        for (const char* name : names) {
            if (!folder_.empty() && place != folder_) continue;
            void* handle = dlopen((place + name).c_str(), RTLD_LAZY | RTLD_LOCAL);
            if (handle && !dlsym(handle, "barcuda_guest_library")) return handle;
            spdlog::debug("{}", handle ? place + name + " is Barcuda's own" : std::string(dlerror()));
        }
    return nullptr;
}

void Libraries::open(Op op) {
    tried(op) = true;
    if (is_random(op)) {
        void* handle = find({"libcurand.so.10"});
        if (!handle) return spdlog::warn("a client asks for cuRAND: there is no libcurand.so.10 for this device");
#define X(name, ...) name = reinterpret_cast<decltype(name)>(dlsym(handle, #name));
        BARCUDA_RANDOM(X)
#undef X
    } else {
        void* handle = find({"libcublas.so.13", "libcublas.so.12"});
        if (!handle) return spdlog::warn("a client asks for cuBLAS: there is no libcublas.so.13 for this device");
#define X(name, ...) name = reinterpret_cast<decltype(name)>(dlsym(handle, #name));
        BARCUDA_BLAS(X)
        X(cublasSetPointerMode_v2)
#undef X
#define X(name, ...) name = reinterpret_cast<decltype(name)>(dlsym(handle, #name "_64"));
        BARCUDA_BLAS_WORK(X)
#undef X
    }
}

}  // namespace barcuda
