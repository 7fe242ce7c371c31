// SPDX-License-Identifier: Apache-2.0
// app.h: `barcuda` as the files of its subcommands see it. Each file has a function add_NAME (commands.h), which
// declares the subcommand with its help and its options, and hands over the function that does its work.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "host-bridge/exit_status.h"

namespace CLI {
class App;
}

namespace barcuda {

class App {
  public:
    // Called after the words on the command line are parsed; its result is the exit status. It owns the options that
    // the parser writes to.
    using Body = std::function<int()>;

    App();
    ~App();
    CLI::App& all() { return *all_; }
    // `wrong`: the exit status when the words behind the subcommand are not understood.
    CLI::App& add(const std::string& name, const std::string& help, Body body, int wrong = wrong_usage);
    // A subcommand of `parent`.
    CLI::App& add_to(CLI::App& parent, const std::string& name, const std::string& help, Body body,
                     int wrong = wrong_usage);
    int run(int argc, char** argv);

  private:
    struct Command {
        Body body;
        int wrong;
    };
    std::unique_ptr<CLI::App> all_;
    std::map<const CLI::App*, Command> commands_;
};

}  // namespace barcuda
