// SPDX-License-Identifier: Apache-2.0
// app.cc: one sentence, the nearest correct word, where the help is, and an exit status that differs from those of the
// program that it runs: what a program answers to a mistyped command. One file includes all that CLI11's App is made
// of, since each such file takes seconds to compile.
#include "base/cli/app.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <sstream>
#include <utility>
#include <vector>

#include "base/cli/wrap.h"

namespace barcuda {
namespace {

// The number of letters to insert, delete, replace or exchange with their neighbour.
std::size_t distance(const std::string& a, const std::string& b) {
    std::vector<std::vector<std::size_t>> d(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
    for (std::size_t i = 0; i <= a.size(); ++i)
        for (std::size_t j = 0; j <= b.size(); ++j) {
            d[i][j] = i == 0   ? j
                      : j == 0 ? i
                               : std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] != b[j - 1])});
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
        }
    return d[a.size()][b.size()];
}

// "; did you mean ...?", or nothing if no word is near.
std::string did_you_mean(const std::string& word, const std::vector<std::string>& words) {
    const auto nearest = std::ranges::min_element(words, {}, [&](const std::string& w) { return distance(word, w); });
    if (nearest == words.end() || distance(word, *nearest) > std::max<std::size_t>(1, word.size() / 3)) return {};
    return "; did you mean " + *nearest + "?";
}

std::vector<std::string> names_of_options(const CLI::App& app) {
    std::vector<std::string> names;
    for (const CLI::Option* option : app.get_options())
        for (const std::string& name : option->get_lnames())
            if (!option->get_group().empty()) names.push_back("--" + name);
    for (const CLI::App* group : app.get_subcommands([](const CLI::App* a) { return a->get_name().empty(); }))
        for (const std::string& name : names_of_options(*group)) names.push_back(name);
    return names;
}

// The command that was meant, as far as it was understood.
CLI::App& innermost(CLI::App& app) {
    const auto parsed = app.get_subcommands();
    return parsed.empty() ? app : innermost(*parsed.front());
}

std::string full_name(const CLI::App& app) {
    return app.get_parent() ? full_name(*app.get_parent()) + " " + app.get_name() : app.get_name();
}

// Commands of other programs, and what to use instead here.
using Elsewhere = std::map<std::string, std::string>;

// The message for a word that is no command of these.
std::string no_such_command(const std::string& word, const std::vector<std::string>& names,
                            const Elsewhere& elsewhere) {
    const auto known = elsewhere.find(word);
    return word + ": there is no such command" +
           (known == elsewhere.end() ? did_you_mean(word, names) : "; " + known->second);
}

std::vector<std::string> names_of_commands(const CLI::App& app) {
    std::vector<std::string> names;
    for (const CLI::App* s : app.get_subcommands([](const CLI::App* a) { return !a->get_name().empty(); }))
        names.push_back(s->get_name());
    return names;
}

// The message for an error: CLI11's own, except for unknown words.
std::string complaint(const CLI::ParseError& error, CLI::App& app, int argc, char** argv, const Elsewhere& elsewhere) {
    const CLI::App& meant = innermost(app);
    const std::vector<std::string> names = names_of_commands(meant), options = names_of_options(meant);
    const std::vector<std::string> words(argv + 1, argv + argc);
    auto first = &meant == &app ? words.begin() : std::find(words.begin(), words.end(), meant.get_name());
    if (&meant != &app && first != words.end()) ++first;
    bool is_value = false;  // of the option before
    for (auto word = first; word != words.end() && *word != "--"; ++word) {
        if (std::exchange(is_value, false)) continue;
        const std::string name = word->substr(0, word->find('='));
        if (word->starts_with("--") && std::ranges::find(options, name) == options.end() &&
            !meant.get_option_no_throw(name))  // nor one that help does not show
            return name + ": there is no such option" + did_you_mean(name, options);
        const CLI::Option* const option = word->starts_with('-') ? meant.get_option_no_throw(name) : nullptr;
        is_value = option && name == *word && option->get_items_expected_min() > 0;
        if (!word->starts_with('-') && !names.empty())
            return no_such_command(*word, names, &meant == &app ? elsewhere : Elsewhere());
        if (!word->starts_with('-')) break;  // a value, or a program with its own arguments
    }
    return error.what();
}

// Parses. True: continue. Otherwise `status` is the exit status: 0 after help, `wrong` after a wrong word.
bool parsed(CLI::App& app, int argc, char** argv, int& status, const auto& wrong, const Elsewhere& elsewhere) {
    try {
        app.parse(argc, argv);
        return true;
    } catch (const CLI::ParseError& error) {
        if (error.get_exit_code() == 0) {  // a help, or the version
            std::ostringstream said;
            status = app.exit(error, said, said);
            std::cout << wrapped(said.str(), terminal_columns());
            return false;
        }
        const CLI::App& meant = innermost(app);
        status = wrong(meant);
        std::string what = complaint(error, app, argc, argv, elsewhere);
        std::erase(what, '\n');
        std::cerr << full_name(meant) << ": " << what << "\n`" << full_name(meant) << " --help` shows the usage\n";
        return false;
    }
}

// `barcuda help` is answered before the words are parsed: CLI11 would take `help run` for two subcommands, and
// `help --help` for a question about `help`.
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
    std::cout << wrapped(of->help(of == &all ? "" : full_name(*of->get_parent())), terminal_columns());
    return 0;
}

}  // namespace

int complain(const char* command, const std::string& what, int status) {
    fmt::print(stderr, "barcuda {}: {}\n", command, what);
    return status;
}

App::App(std::map<std::string, std::string> hints, const std::string& version)
    : hints_(std::move(hints)),
      all_(std::make_unique<CLI::App>("CUDA for virtual machines over a shared-memory BAR.", "barcuda")) {
    all_->require_subcommand(1);
    all_->allow_windows_style_options(false);  // a word that begins with a slash is a path, on Windows, too
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
    if (!parsed(*all_, argc, argv, status, wrong, hints_)) return status;
    return commands_.at(&innermost(*all_)).body();
}

void add_help(App& app) {
    const auto words = std::make_shared<std::vector<std::string>>();
    app.add("help", "the help of a command, as its --help", [&app, words] { return help(app, *words); })
        .add_option("COMMAND", *words, "which command (default: the list of all)");
}

bool understood(CLI::App& app, int argc, char** argv, int& status) {
    return parsed(app, argc, argv, status, [](const CLI::App&) { return wrong_usage; }, {});
}

}  // namespace barcuda
