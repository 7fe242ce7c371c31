// SPDX-License-Identifier: Apache-2.0
// parser.h: PTX text -> ast::Module. The module's views point into the text, which must outlive it.
#pragma once
#include <string_view>

#include "soft-gpu/ptx/ast.h"

namespace barcuda::soft {

ast::Module parse(std::string_view text);  // throws Error

}  // namespace barcuda::soft
