// SPDX-License-Identifier: Apache-2.0
// files.h: which files a worker sees. The root (root.cc) and Landlock's rules (landlock.cc) come from one list: each
// works where the other is not available.
#pragma once
#include <string>
#include <vector>

#include "host-bridge/cage/cage.h"

namespace barcuda::cage {

enum class Access {
    read,
    use,         // a device
    change,      // a folder that the worker's user may write to
    change_own,  // a folder that the worker's user may not write to: it gets an empty one in its place
};
struct Shown {
    std::string path;  // absolute; the file may be missing
    Access access;
};
// The files of this system that a worker needs, whose driver is in `library`.
std::vector<Shown> shown_files(const Order& order, const std::string& library);

// Where NVIDIA's driver caches compiled code; empty: nowhere.
std::string cache_of_code();
// This program's own libraries.
std::vector<std::string> mapped_files();

// root.cc: for a process in its own mount namespace: makes a root that has these files and nothing else, and enters it.
// Returns 0, or errno.
int enter_new_root(const Order& order, const std::string& library);

}  // namespace barcuda::cage
