// SPDX-License-Identifier: Apache-2.0
#include "base/cli/command.h"

#include <CLI/CLI.hpp>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>

namespace barcuda {
namespace {

// CLI11 takes a unit alone as one of it, and a negative number as a huge one where there are no negative ones.
CLI::Validator begins_with_a_digit() {
    return CLI::Validator(
        [](const std::string& value) {
            return !value.empty() && value[0] >= '0' && value[0] <= '9' ? "" : "not a number: " + value;
        },
        "");
}

}  // namespace

const Option& Option::required() const {
    option_->required();
    return *this;
}
const Option& Option::capture_default_str() const {
    option_->capture_default_str();
    return *this;
}
const Option& Option::default_str(const std::string& text) const {
    option_->default_str(text);
    return *this;
}
const Option& Option::envname(const std::string& name) const {
    option_->envname(name);
    return *this;
}
const Option& Option::excludes(const Option& other) const {
    option_->excludes(other.option_);
    return *this;
}
const Option& Option::type_name(const std::string& name) const {
    option_->type_name(name);
    return *this;
}
const Option& Option::take_all() const {
    option_->expected(1)->take_all();
    return *this;
}
const Option& Option::check(Check check) const {
    option_->check(std::move(check));
    return *this;
}
const Option& Option::is_member(std::initializer_list<const char*> values) const {
    option_->check(CLI::IsMember(std::vector<std::string>(values.begin(), values.end())));
    return *this;
}
const Option& Option::range(int least, int most) const {
    option_->check(CLI::Range(least, most));
    return *this;
}
const Option& Option::existing_directory() const {
    option_->check(CLI::ExistingDirectory);
    return *this;
}
const Option& Option::as_size() const {
    option_->type_name("SIZE");
    option_->transform(CLI::AsSizeValue(false).description(""));
    option_->transform(begins_with_a_digit());
    return *this;  // what comes last is asked first
}
const Option& Option::as_seconds() const {
    const std::map<std::string, double> units{{"ms", 0.001}, {"s", 1}, {"m", 60}};
    option_->type_name("TIME");
    option_->transform(CLI::AsNumberWithUnit(units, CLI::AsNumberWithUnit::UNIT_OPTIONAL).description(""));
    option_->transform(begins_with_a_digit());
    return *this;
}

Option Command::add_flag(const std::string& name, bool& given, const std::string& help) const {
    return Option(app_->add_flag(name, given, help));
}
template <class T> Option Command::add_option(const std::string& name, T& value, const std::string& help) const {
    return Option(app_->add_option(name, value, help));
}
#define OF(...) \
    template Option Command::add_option(const std::string& name, __VA_ARGS__& value, const std::string& help) const
OF(std::string);
OF(std::vector<std::string>);
OF(int);
OF(unsigned);
OF(std::uint64_t);
OF(std::uint16_t);
OF(double);
OF(std::optional<unsigned>);
#undef OF
Option Command::add_option_function(const std::string& name, const std::function<void(const std::string&)>& given,
                                    const std::string& help) const {
    return Option(app_->add_option_function<std::string>(name, given, help));
}
Option Command::option(const std::string& name) const { return Option(app_->get_option(name)); }

void Command::add_choice(const std::string& name, const std::string& help, const std::string& each,
                         std::initializer_list<const char*> names,
                         const std::function<void(const char*)>& given) const {
    CLI::App* const group = app_->add_option_group(name, help);
    for (const char* one : names)
        group->add_flag_callback(
            std::string("--") + one, [given, one] { given(one); }, each + one);
    group->require_option(1);
}
void Command::may_have_subcommand() const { app_->require_subcommand(0, 1); }
void Command::positionals_at_end() const { app_->positionals_at_end(); }

bool parse_number(const std::string& word, double& number) { return CLI::detail::lexical_cast(word, number); }

}  // namespace barcuda
