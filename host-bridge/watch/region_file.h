// SPDX-License-Identifier: Apache-2.0
// region_file.h: the file behind a region's name, for programs of root that pass it on (Kubernetes, CDI). A bridge says
// a name, and another program mounts the file there into a container, writable. So the file itself is opened and
// checked here, and the path of the opened file is used.
#pragma once
#include <sys/types.h>

#include <set>
#include <string>
#include <vector>

namespace barcuda::watch {

struct RegionFile {
    std::string path;   // absolute, with no symbolic link in it
    std::string error;  // a sentence; empty: the path names a region's file that only root and `owners` can replace
};

// For a name that an operator gave. `owners`: users, besides root, that may own the file and its folders.
RegionFile region_file(const std::string& path, const std::set<uid_t>& owners);
// For a name that a bridge of `user` said at `door` (bridges.h): the file must also have the numbers in the door's
// name.
RegionFile region_file(const std::string& path, const std::string& door, uid_t user);

// Users whose bridges a program of root believes: root, this process's own user, the packages' user barcuda if there is
// one, and `names` (or numbers). `error`: a name that this machine does not know.
std::set<uid_t> believed_users(const std::vector<std::string>& names, std::string& error);

}  // namespace barcuda::watch
