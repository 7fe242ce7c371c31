// SPDX-License-Identifier: Apache-2.0
#include "base/cli/user_folders.h"

#include <fmt/format.h>

#include <cstdlib>

namespace barcuda {
namespace {

struct XdgFolder {
    const char *name, *in_home;
};
XdgFolder xdg_folder(UserFolder which) {
    switch (which) {
        case UserFolder::cache: return {"XDG_CACHE_HOME", ".cache"};
        case UserFolder::data: return {"XDG_DATA_HOME", ".local/share"};
        case UserFolder::state: break;
    }
    return {"XDG_STATE_HOME", ".local/state"};
}

// Programs ignore a relative path, as the specification says.
std::filesystem::path absolute_path_in(const char* name) {
    const char* const value = getenv(name);
    return value && *value == '/' ? value : "";
}

}  // namespace

std::filesystem::path user_folder(UserFolder which) {
    const XdgFolder its = xdg_folder(which);
    if (const auto own = absolute_path_in(its.name); !own.empty()) return own / "barcuda";
    if (const auto home = absolute_path_in("HOME"); !home.empty()) return home / its.in_home / "barcuda";
    return {};
}

Failure no_user_folder(UserFolder which, const char* purpose) {
    return fmt::format("neither {} nor HOME names a folder {}", xdg_folder(which).name, purpose);
}

}  // namespace barcuda
