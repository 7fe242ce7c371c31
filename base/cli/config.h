// SPDX-License-Identifier: Apache-2.0
// config.h: a file of options for a CLI11 program, --config FILE, one `name = value` a line; and --print-config, which
// writes such a file with every option, its purpose and its default. Both read the options from the program itself.
#pragma once
#include <CLI/CLI.hpp>
#include <cstdlib>
#include <iostream>
#include <sstream>
#include <string>

namespace barcuda {

// Call it after all other options have been added. The command line overrides the file, and the file overrides the
// environment. A file that only $BARCUDA_CONFIG names may be missing, so that a unit can name one that an administrator
// may write later.
inline void add_config(CLI::App& app) {
    const char* usual = std::getenv("BARCUDA_CONFIG");
    app.set_config("--config", usual ? usual : "",
                   "a file of these options, one `name = value` a line (--print-config shows them all)");
    app.allow_config_extras(CLI::config_extras_mode::error);
    for (CLI::Option* option : app.get_options([](const CLI::Option* o) { return o->get_group().empty(); }))
        option->configurable(false);  // no help shows these
    app.add_flag_callback(
           "--print-config",
           [&app] {
               std::cout << "# " << app.get_name() << " --config FILE: every option, with its default.\n";
               for (const CLI::Option* option : app.get_options()) {
                   if (!option->get_configurable()) continue;
                   std::cout << "\n";
                   std::istringstream lines(option->get_description());
                   for (std::string line; std::getline(lines, line);) std::cout << "# " << line << "\n";
                   const std::string value = option->get_expected_max() == 0 ? "false" : option->get_default_str();
                   std::cout << "#" << option->get_single_name() << " =" << (value.empty() ? "" : " ") << value << "\n";
               }
               throw CLI::Success{};
           },
           "print such a file")
        ->configurable(false);
}

}  // namespace barcuda
