// SPDX-License-Identifier: Apache-2.0
// installation.h: where this installation's files are, found from where this program is, and how a program is started
// with Barcuda's library in front.
#pragma once
#include <string>
#include <vector>

namespace barcuda {

struct Installation {
    std::string bridge, library, links, libraries, software;
};
Installation installation();
std::string check(const Installation& here);  // what it lacks to run a program; empty: nothing
// Into this process's environment: Barcuda's library for the programs that this process starts or becomes. `libraries`:
// its cuBLAS and cuRAND, too; `by_force`: also where a program brings its own.
void put_in_front(const Installation& here, bool libraries, bool by_force);
// Becomes the program. Returns, after a message, the status for "not found" or "cannot be run".
int become(const char* command, const std::vector<std::string>& words);

}  // namespace barcuda
