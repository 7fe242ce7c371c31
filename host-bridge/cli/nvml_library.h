// SPDX-License-Identifier: Apache-2.0
// nvml_library.h: an NVML that is opened for its answers: the guest's, or this machine's own. For `barcuda smi`.
#pragma once
#include <dlfcn.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "shm-device/rows/nvml_rows.h"

namespace barcuda::nvml {

// Names chosen by others (a process's, a guest's region's) must not contain control characters for a terminal, or break
// JSON.
inline std::string printable(std::string text) {
    std::ranges::replace_if(
        text, [](char c) { return c < 0x20 || c > 0x7e; }, '?');
    return text;
}

class NvmlLibrary {
  public:
    explicit NvmlLibrary(const std::string& path) : library_(dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {}
    explicit operator bool() const { return library_; }

    template <class F> F* symbol(const char* name) const { return reinterpret_cast<F*>(dlsym(library_, name)); }
    // The value that a function of the table returns; none: it is not available here.
    template <Question q, class T, class... Given> std::optional<T> get(Given... given) const {
        T value{};
        auto* f = symbol<Function<q>>(question_names[static_cast<std::size_t>(q)]);
        if (!f || f(given..., &value) != success) return {};
        return value;
    }
    template <Question q, class... Given> std::string text(Given... given) const {
        char value[96];
        auto* f = symbol<Function<q>>(question_names[static_cast<std::size_t>(q)]);
        return f && f(given..., value, sizeof value) == success ? printable(value) : "";
    }

    // The same of functions that fill a structure of a version of theirs.
    template <Question q, class T, unsigned number> std::optional<T> versioned(Device device) const {
        T value{};
        value.version = version_of<T, number>;
        auto* f = symbol<Function<q>>(question_names[static_cast<std::size_t>(q)]);
        if (!f || f(device, &value) != success) return {};
        return value;
    }
    // ... and of functions that fill two numbers.
    template <Question q> std::optional<std::pair<unsigned, unsigned>> both(Device device) const {
        std::pair<unsigned, unsigned> value{};
        auto* f = symbol<Function<q>>(question_names[static_cast<std::size_t>(q)]);
        if (!f || f(device, &value.first, &value.second) != success) return {};
        return value;
    }

  private:
    void* library_;
};

}  // namespace barcuda::nvml
