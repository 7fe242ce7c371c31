// SPDX-License-Identifier: Apache-2.0
// hints.h: what to do here in place of commands that other programs have.
#pragma once
#include <map>
#include <string>

namespace barcuda {

const std::map<std::string, std::string>& hints();

}  // namespace barcuda
