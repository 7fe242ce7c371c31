// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/worker/session/libraries.h"

#include <dlfcn.h>

#include "base/log.h"
#include "host-bridge/worker/session/library_functions.h"

namespace barcuda {

Libraries::Libraries(const std::string& driver)
    : functions_(std::make_unique<LibraryFunctions>()), folder_(driver, 0, driver.rfind('/') + 1) {}
Libraries::~Libraries() = default;
Libraries& Libraries::operator=(Libraries&&) noexcept = default;

namespace {
struct Opened {  // by open_all
    bool all = false;
    void* handles[std::size(math_libraries)]{};
} opened;
}  // namespace

void Libraries::open_all(const std::string& driver) {
    const Libraries here(driver);
    for (const MathLibrary& library : math_libraries)
        opened.handles[&library - math_libraries] = here.look_for(library);
    opened.all = true;
}

void* Libraries::find(const MathLibrary& library) const {
    return opened.all ? opened.handles[&library - math_libraries] : look_for(library);
}

// The first of its names that exists: where the system looks, or where the toolkit installs it.
void* Libraries::look_for(const MathLibrary& library) const {
    const std::string places[] = {folder_, toolkit_libraries};
    for (const std::string& place : places)
        for (const char* name : library.sonames) {
            if (!name || (!folder_.empty() && place != folder_)) continue;
            void* handle = dlopen((place + name).c_str(), RTLD_LAZY | RTLD_LOCAL);
            if (handle && !dlsym(handle, "barcuda_guest_library")) return handle;
            log::debug("{}", handle ? place + name + " is Barcuda's own" : std::string(dlerror()));
        }
    return nullptr;
}

void Libraries::open(const MathLibrary& library) {
    state(library).tried = true;
    void* handle = find(library);
    if (!handle)
        return log::warn("a client asks for {}: there is no {} for this device", library.title, library.sonames[0]);
    state(library).there = true;
    const auto load = [&](Op op, auto& function, const char* name) {
        if (library_of(op) == &library)
            function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(handle, name));
    };
#define X(name, ...) load(Op::name, functions_->name, #name);
    BARCUDA_LIBRARY_ROWS(X)
#undef X
#define X(name, ...) load(Op::name, functions_->name, #name "_64");
    BARCUDA_LIBRARY_WIDE_ROWS(X)
#undef X
}

}  // namespace barcuda
