// SPDX-License-Identifier: Apache-2.0
// exec.cc: `barcuda exec`: the program with the folder of our DLLs in front. It also serves where NVIDIA's are in
// System32.
#include <memory>
#include <string>
#include <vector>

#include "base/cli/exit_status.h"
#include "base/cli/installation.h"
#include "base/cli/options.h"
#include "guest-allocator/commands/commands.h"

namespace barcuda {
namespace {

int exec(const std::vector<std::string>& program) {
    const Installation here = installation();
    if (const std::string lacks = check(here); !lacks.empty()) return complain("exec", lacks, cannot_run);
    put_in_front(here, false, false);
    return become("exec", program);
}

}  // namespace

void add_exec(App& app) {
    const auto program = std::make_shared<std::vector<std::string>>();
    const Command command = app.add(
        "exec", "run a program with the VM's GPUs, as if they were this machine's",
        [program] { return exec(*program); }, cannot_run);
    add_program(command, *program);
}

}  // namespace barcuda
