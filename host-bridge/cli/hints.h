// SPDX-License-Identifier: Apache-2.0
// hints.h: hints for words that are commands of other programs, but not of this one.
#pragma once
#include <map>
#include <string>

namespace barcuda {

const std::map<std::string, std::string>& hints();

}  // namespace barcuda
