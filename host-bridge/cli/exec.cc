// SPDX-License-Identifier: Apache-2.0
// exec.cc: `barcuda exec`, in a guest: the program with the library in front, which finds the VM's region itself.
#include <fmt/format.h>

#include <cstdlib>

#include "host-bridge/cli/commands.h"
#include "host-bridge/cli/installation.h"
#include "host-bridge/exit_status.h"
#include "shm-device/trace.h"

namespace barcuda {

int exec(const std::vector<std::string>& program, bool host_libraries) {
    const Installation here = installation();
    if (const std::string lacks = check(here); !lacks.empty())
        return fmt::print(stderr, "barcuda exec: {}\n", lacks), cannot_run;
    if (const char* e = trace::begin_run())
        return fmt::print(stderr, "barcuda exec: BARCUDA_TRACE={}: {}\n", getenv("BARCUDA_TRACE"), e), cannot_run;
    put_in_front(here, host_libraries, host_libraries);
    return become("exec", program);
}

}  // namespace barcuda
