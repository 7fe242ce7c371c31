// SPDX-License-Identifier: Apache-2.0
// exec.cc: `barcuda exec`, in a guest: the program with the library in front, which finds the VM's region itself.
#include <fmt/format.h>

#include <cstdlib>
#include <memory>

#include "base/cli/exit_status.h"
#include "base/cli/installation.h"
#include "base/cli/options.h"
#include "base/trace.h"
#include "guest-allocator/commands/commands.h"

namespace barcuda {
namespace {

int complain(const std::string& what) { return barcuda::complain("exec", what, cannot_run); }

// In a guest: becomes the program, with the library in front. Returns only if that cannot be: 125, or 126 and 127 as
// shells have them.
int exec(const std::vector<std::string>& program, bool host_libraries) {
    const Installation here = installation();
    if (const std::string lacks = check(here); !lacks.empty()) return complain(lacks);
    if (const char* e = trace::begin_run())
        return complain(fmt::format("BARCUDA_TRACE={}: {}", getenv("BARCUDA_TRACE"), e));
    put_in_front(here, host_libraries, host_libraries);
    return become("exec", program);
}

struct ExecOptions {
    std::vector<std::string> program;
    bool host_libraries = false;
};

}  // namespace

void add_exec(App& app) {
    const auto options = std::make_shared<ExecOptions>();
    const Command command = app.add(
        "exec", "in a guest: run a program with the VM's GPUs, as if they were this machine's",
        [options] { return exec(options->program, options->host_libraries); }, cannot_run);
    add_host_libraries(command, options->host_libraries);
    add_program(command, options->program);
}

}  // namespace barcuda
