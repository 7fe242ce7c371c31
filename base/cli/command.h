// SPDX-License-Identifier: Apache-2.0
// command.h: a subcommand and its options, as the files of the subcommands declare them. CLI11 does the work, and these
// functions have its names. Its headers take four seconds to compile, so few files include them: command.cc and app.cc.
#pragma once
#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace barcuda {

class Option {
  public:
    // What is wrong with a value; nothing: it is correct.
    using Check = std::function<std::string(const std::string& value)>;

    explicit Option(CLI::Option* option) : option_(option) {}
    const Option& required() const;
    const Option& capture_default_str() const;
    const Option& default_str(const std::string& text) const;
    const Option& envname(const std::string& name) const;
    const Option& excludes(const Option& other) const;
    const Option& type_name(const std::string& name) const;
    const Option& take_all() const;  // each use adds one value
    const Option& check(Check check) const;
    const Option& is_member(std::initializer_list<const char*> values) const;
    const Option& range(int least, int most) const;
    const Option& existing_directory() const;
    const Option& as_size() const;     // a number of bytes, such as 4G or 4096
    const Option& as_seconds() const;  // a time, such as 10s, 500ms or 2m

  private:
    CLI::Option* option_;
};

class Command {
  public:
    Command(CLI::App& app) : app_(&app) {}
    CLI::App& app() const { return *app_; }
    Option add_flag(const std::string& name, bool& given, const std::string& help) const;
    // T is one of the types that command.cc names.
    template <class T> Option add_option(const std::string& name, T& value, const std::string& help) const;
    Option add_option_function(const std::string& name, const std::function<void(const std::string&)>& given,
                               const std::string& help) const;
    Option option(const std::string& name) const;
    // Exactly one of these flags must be given: `given` is called with its name.
    void add_choice(const std::string& name, const std::string& help, const std::string& each,
                    std::initializer_list<const char*> names, const std::function<void(const char*)>& given) const;
    void may_have_subcommand() const;
    void positionals_at_end() const;  // all words from the first positional one on are positional

  private:
    CLI::App* app_;
};

// The whole word is a number.
bool parse_number(const std::string& word, double& number);

}  // namespace barcuda
