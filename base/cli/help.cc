// SPDX-License-Identifier: Apache-2.0
// help.cc: `barcuda help` is answered before the words are parsed: CLI11 would take `help run` for two subcommands, and
// `help --help` for a question about `help`.
#include "base/cli/help.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <memory>

#include "base/cli/app.h"
#include "base/cli/usage.h"

namespace barcuda {

int help(App& app, const std::vector<std::string>& words) {
    CLI::App& all = app.all();
    CLI::App* of = &all;
    for (const std::string& word : words) {
        if (word == "--help" || word == "-h") continue;
        const auto names = names_of_commands(*of);
        if (std::ranges::find(names, word) == names.end()) {
            std::cerr << all.get_name() << " help: " << no_such_command(word, names, app.hints()) << "\n`"
                      << full_name(*of) << " --help` shows the usage\n";
            return wrong_usage;
        }
        of = of->get_subcommand(word);
    }
    std::cout << of->help(of == &all ? "" : full_name(*of->get_parent()));
    return 0;
}

void add_help(App& app) {
    const auto words = std::make_shared<std::vector<std::string>>();
    app.add("help", "the help of a command, as its --help", [&app, words] { return help(app, *words); })
        .add_option("COMMAND", *words, "which command (default: the list of all)");
}

}  // namespace barcuda
