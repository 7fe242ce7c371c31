// SPDX-License-Identifier: Apache-2.0
// sanitized.h: whether this is a build under a sanitizer.
#pragma once

namespace barcuda {

#ifdef BARCUDA_SANITIZED
constexpr bool sanitized = true;
#else
constexpr bool sanitized = false;
#endif

// A loop over very many cases goes on by this: a plain build runs all of them.
constexpr int sanitized_step = sanitized ? 5 : 1;

}  // namespace barcuda
