// SPDX-License-Identifier: Apache-2.0
// installation.h: where this installation's files are, found from where this program is, and how a program is started
// with Barcuda's library in front.
#pragma once
#include <string>
#include <vector>

namespace barcuda {

struct Installation {
    std::string bridge, library, links, libraries, software;
    std::string loader;   // the names of `links` as the system's loader wants them
    std::string command;  // barcuda
    std::string windows;  // the DLLs of `make windows`
    std::string nvml;     // the guest's
};
Installation installation();
std::string check(const Installation& here);  // what is missing for running a program; empty: nothing
// Changes this process's environment: programs that it starts or becomes get Barcuda's library. `libraries`: also its
// cuBLAS and cuRAND; `by_force`: also where a program brings its own.
void put_in_front(const Installation& here, bool libraries, bool by_force);
// Executes the program. Returns, after a message, only if it is not found or cannot be run: the exit status.
int become(const char* command, const std::vector<std::string>& words);

}  // namespace barcuda
