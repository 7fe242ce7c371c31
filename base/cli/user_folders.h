// SPDX-License-Identifier: Apache-2.0
// user_folders.h: Barcuda's folders of one user, by the XDG base directory specification, version 0.8
// (specifications.freedesktop.org/basedir-spec).
#pragma once
#include <filesystem>

#include "base/failure.h"

namespace barcuda {

enum class UserFolder {
    cache,  // XDG_CACHE_HOME, ~/.cache: what can be made again
    data,   // XDG_DATA_HOME, ~/.local/share
    state,  // XDG_STATE_HOME, ~/.local/state: logs
};
// Its folder `barcuda`, which may not be there. Empty: neither that variable nor HOME names an absolute path.
std::filesystem::path user_folder(UserFolder which);
// What to say then. `purpose`: "for the VM".
Failure no_user_folder(UserFolder which, const char* purpose);

}  // namespace barcuda
