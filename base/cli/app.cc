// SPDX-License-Identifier: Apache-2.0
#include "base/cli/app.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <utility>
#include <vector>

#include "base/cli/help.h"
#include "base/cli/usage.h"

namespace barcuda {

int complain(const char* command, const std::string& what, int status) {
    fmt::print(stderr, "barcuda {}: {}\n", command, what);
    return status;
}

App::App(std::map<std::string, std::string> hints, const std::string& version)
    : hints_(std::move(hints)),
      all_(std::make_unique<CLI::App>("CUDA for virtual machines over a shared-memory BAR.", "barcuda")) {
    all_->require_subcommand(1);
    all_->set_help_all_flag("--help-all", "Print this, and the help of each subcommand");
    all_->set_version_flag("--version", version);
}
App::~App() = default;

Command App::add(const std::string& name, const std::string& help, Body body, int wrong) {
    return add_to(*all_, name, help, std::move(body), wrong);
}

Command App::add_to(Command parent, const std::string& name, const std::string& help, Body body, int wrong) {
    CLI::App& added = *parent.app().add_subcommand(name, help);
    commands_[&added] = {std::move(body), wrong};
    return Command(added);
}

int App::run(int argc, char** argv) {
    const std::vector<std::string> words(argv + 1, argv + argc);
    if (words.empty()) return help(*this, {});
    if (words[0] == "help") return help(*this, {words.begin() + 1, words.end()});
    const auto wrong = [this](const CLI::App& meant) {
        const auto command = commands_.find(&meant);
        return command == commands_.end() ? wrong_usage : command->second.wrong;
    };
    int status = 0;
    if (!understood(*all_, argc, argv, status, wrong, hints_)) return status;
    return commands_.at(&innermost(*all_)).body();
}

}  // namespace barcuda
