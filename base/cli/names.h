// SPDX-License-Identifier: Apache-2.0
// names.h: the rule for names of VMs and their bridges. A name is a part of a file's name (the region, a log, a unit),
// a word of command lines and logs, and a label of metrics.
#pragma once
#include <filesystem>
#include <string>
#include <string_view>

namespace barcuda {

constexpr std::size_t longest_name = 63;
constexpr std::string_view in_names = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz.-";

inline bool is_name(std::string_view name) {
    return !name.empty() && name.size() <= longest_name && name.find_first_not_of(in_names) == name.npos &&
           name[0] != '.' && name[0] != '-';
}
// What is wrong with a name; nothing: it is one.
inline std::string check_name(const std::string& name) {
    return is_name(name) ? ""
                         : "'" + name +
                               "' is no name: a name has 1 to 63 letters, digits, '.', '-' and '_', and does not "
                               "begin with '.' or '-'";
}

// The usual region of a VM: beside this other VM's.
inline std::string region_beside(const std::filesystem::path& region, const std::string& name) {
    return region.parent_path() / ("barcuda-" + name);
}

}  // namespace barcuda
