// SPDX-License-Identifier: Apache-2.0
#include "base/cli/options.h"

namespace barcuda {

void add_json(Command command, bool& json, const std::string& help) { command.add_flag("--json", json, help); }

void add_size(Command command, const std::string& name, std::uint64_t& bytes, const std::string& help) {
    command.add_option(name, bytes, help).as_size().default_str(std::to_string(bytes >> 30) + "G");
}

void add_host_libraries(Command command, bool& wanted, const std::string& more) {
    command.add_flag("--host-libraries", wanted,
                     "cuBLAS and cuRAND are the host's, even if NVIDIA's libraries are installed here" + more);
}

void add_program(Command command, std::vector<std::string>& words) {
    command.add_option("PROGRAM", words, "the program and its arguments").required();
    command.positionals_at_end();
}

}  // namespace barcuda
