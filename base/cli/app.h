// SPDX-License-Identifier: Apache-2.0
// app.h: `barcuda` as the files of its subcommands see it. Each file has a function add_NAME, which declares the
// subcommand with its help and its options, and hands over the function that does its work.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "base/cli/command.h"
#include "base/cli/exit_status.h"

namespace barcuda {

class App;
using AddCommand = void(App&);
// `barcuda help` and `barcuda help COMMAND ...`, as git and docker have it.
AddCommand add_help;

// "barcuda COMMAND: WHAT", on standard error; returns the status.
int complain(const char* command, const std::string& what, int status = 1);

class App {
  public:
    // Called after the command line is parsed; its result is the exit status. It owns the options that the parser
    // writes to.
    using Body = std::function<int()>;

    // `hints`: for commands of other programs, what to use here instead.
    App(std::map<std::string, std::string> hints, const std::string& version);
    ~App();
    CLI::App& all() { return *all_; }
    const std::map<std::string, std::string>& hints() const { return hints_; }
    // `wrong`: the exit status when the words after the subcommand are not understood.
    Command add(const std::string& name, const std::string& help, Body body, int wrong = wrong_usage);
    // A subcommand of `parent`.
    Command add_to(Command parent, const std::string& name, const std::string& help, Body body,
                   int wrong = wrong_usage);
    int run(int argc, char** argv);

  private:
    struct Entry {
        Body body;
        int wrong;
    };
    std::map<std::string, std::string> hints_;
    std::unique_ptr<CLI::App> all_;
    std::map<const CLI::App*, Entry> commands_;
};

// For programs without subcommands. Parses; true: continue. Otherwise `status` is the exit status: 0 after help,
// `wrong_usage` after a wrong word.
bool understood(CLI::App& app, int argc, char** argv, int& status);

}  // namespace barcuda
