// SPDX-License-Identifier: Apache-2.0
#include "base/cli/installation.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/cli/exit_status.h"
#include "base/cli/home.h"

namespace barcuda {
namespace {

void prepend(const char* variable, const std::string& value, char separator) {
    const char* before = getenv(variable);
    setenv(variable, before && *before ? (value + separator + before).c_str() : value.c_str(), 1);
}

// A sanitizer's runtime must be the first library, and the program's malloc must be its own; so a runtime that the user
// has preloaded stays in front.
bool is_sanitizer(const std::string& library) {
    const std::string name = std::filesystem::path(library).filename();
    for (const char* begin : {"libasan.", "libhwasan.", "liblsan.", "libtsan.", "libubsan.", "libclang_rt."})
        if (name.starts_with(begin)) return true;
    return false;
}
void preload(const std::string& library) {
    const char* const before = getenv("LD_PRELOAD");
    std::string front, rest = before ? before : "";
    for (std::size_t end; !rest.empty(); rest.erase(0, end)) {
        end = std::min(rest.find_first_of(" :"), rest.size());
        if (end && !is_sanitizer(rest.substr(0, end))) break;
        end = std::min(end + 1, rest.size());
        front += rest.substr(0, end);
    }
    if (!front.empty() && front.back() != ':' && front.back() != ' ') front += ':';
    setenv("LD_PRELOAD", (front + library + (rest.empty() ? "" : ":" + rest)).c_str(), 1);
}

}  // namespace

Installation installation() {
    std::error_code ec;
    const auto bin = std::filesystem::read_symlink("/proc/self/exe", ec).parent_path();
    return {bin / "barcuda-bridge",
            installed("libbarcuda.so"),
            installed("barcuda"),
            installed("barcuda-libraries"),
            installed("barcuda-soft/libcuda.so.1"),
            installed("barcuda-loader"),
            bin / "barcuda",
            installed("barcuda-windows"),
            installed("barcuda/libnvidia-ml.so.1")};
}

std::string check(const Installation& here) {
    if (access(here.library.c_str(), R_OK) != 0) return here.library + " is missing: run make, or make install";
    if (here.library.find_first_of(" :;") != std::string::npos)  // ld.so(8): LD_PRELOAD and LD_LIBRARY_PATH end there
        return here.library + ": move Barcuda to a folder whose path has no space, colon or semicolon";
    return {};
}

void put_in_front(const Installation& here, bool libraries, bool by_force) {
    if (by_force)  // programs that carry NVIDIA's name the folder themselves (DT_RPATH)
        for (const char* name : {"/libcurand.so.10", "/libcublasLt.so.13", "/libcublas.so.13"})
            preload(here.libraries + name);
    preload(here.library);
    if (libraries) prepend("LD_LIBRARY_PATH", here.libraries, ':');
    prepend("LD_LIBRARY_PATH", here.links, ':');
}

int become(const char* command, const std::vector<std::string>& words) {
    std::vector<char*> arguments;
    arguments.reserve(words.size() + 1);
    for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    execvp(arguments[0], arguments.data());
    const int error = errno;
    fmt::print(stderr, "barcuda {}: cannot run {}: {}\n", command, words[0], strerror(error));
    return error == ENOENT ? not_found : cannot_execute;
}

}  // namespace barcuda
