// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/between/keeping.h"

#include <algorithm>
#include <cstring>

namespace barcuda::keeping {
namespace {

bool is_in_names(char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '-' || c == '_';
}

bool is_order(Form form) { return form == Form::check || form == Form::upgrade; }

}  // namespace

std::optional<Request> Request::read(std::span<const char> message) {
    Request request;
    if (message.size() != sizeof request) return {};
    std::memcpy(&request, message.data(), sizeof request);
    if (request.bytes != sizeof request || request.form == 0 || request.form >= static_cast<std::uint32_t>(Form::count))
        return {};
    const auto end = std::find(std::begin(request.name), std::end(request.name), '\0');
    if (end == std::end(request.name) || !std::all_of(std::begin(request.name), end, is_in_names)) return {};
    const Form form = static_cast<Form>(request.form);
    const bool named = form == Form::keep || form == Form::drop || form == Form::take || is_order(form);
    const bool of_a_process = form == Form::reap || form == Form::look;
    if ((named && (*request.name == '\0' || *request.name == '.')) ||
        (!named && form != Form::list && *request.name != '\0'))
        return {};
    if (is_order(form) ? request.milliseconds == 0 || request.milliseconds > longest_wait : request.milliseconds != 0)
        return {};
    if (of_a_process ? request.process <= 0 : request.process != 0) return {};
    return request;
}

Request request(Form form, std::string_view name, std::int32_t process) {
    Request request;
    request.form = static_cast<std::uint32_t>(form);
    request.process = process;
    name.copy(request.name, longest_name);
    return request;
}

}  // namespace barcuda::keeping
