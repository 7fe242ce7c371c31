// SPDX-License-Identifier: Apache-2.0
// files.h: which files a worker sees. One list, of which its root is made (root.cc) and by which Landlock judges
// (landlock.cc): each holds where the other is not to be had.
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
    std::string path;  // absolute; it need not be there
    Access access;
};
// Of a driver that lies in `library`, as far as they are there.
std::vector<Shown> shown_files(const Order& order, const std::string& library);

// Where NVIDIA's driver keeps what it has compiled; empty: nowhere.
std::string cache_of_code();
// This program's own: its libraries.
std::vector<std::string> mapped_files();

// root.cc: in a namespace of mounts of its own: makes a root that has these files and nothing else, and goes there. 0, or errno.
int enter_new_root(const Order& order, const std::string& library);

}  // namespace barcuda::cage
