// SPDX-License-Identifier: Apache-2.0
// home.h: finds this installation's files from the path of this program, so the whole installation may be moved. In the
// build tree they are in bin/../lib. An installation has a folder of its own for them: the library inside is called
// libcuda.so.1, and ldconfig would make a link of that name in any folder that the system's loader searches.
#pragma once
#include <filesystem>
#include <string>

namespace barcuda {

// The path of `file` of build/lib now, or where it should be if it is not installed. (`make install` takes a LIBDIR
// from here.)
inline std::string installed(const char* file) {
    std::error_code ec;
    const auto prefix = std::filesystem::read_symlink("/proc/self/exe", ec).parent_path().parent_path();
    // Ours first: `lib` has a `barcuda` too, which is one of these folders and not the one in it.
    for (const char* folder : {"lib/barcuda", "lib64/barcuda", "lib/x86_64-linux-gnu/barcuda", "lib"})
        if (const auto path = prefix / folder / file; std::filesystem::exists(path, ec)) return path;
    return prefix / "lib" / file;
}

}  // namespace barcuda
