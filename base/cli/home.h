// SPDX-License-Identifier: Apache-2.0
// home.h: where this installation's files are, found from where this program is: all of it may be moved together. In the
// build tree they lie in bin/../lib. Installed they have a folder of their own, since the library is called libcuda.so.1
// inside, and ldconfig would make a link of that name in any folder that the system's loader looks into.
#pragma once
#include <filesystem>
#include <string>

namespace barcuda {

// Where `file` of build/lib is now; where it should be, if it is not installed. (`make install` takes a LIBDIR from here.)
inline std::string installed(const char* file) {
    std::error_code ec;
    const auto prefix = std::filesystem::read_symlink("/proc/self/exe", ec).parent_path().parent_path();
    // Ours first: `lib` has a `barcuda`, too, which is one of these folders and not the one in it.
    for (const char* folder : {"lib/barcuda", "lib64/barcuda", "lib/x86_64-linux-gnu/barcuda", "lib"})
        if (const auto path = prefix / folder / file; std::filesystem::exists(path, ec)) return path;
    return prefix / "lib" / file;
}

}  // namespace barcuda
