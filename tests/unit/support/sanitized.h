// SPDX-License-Identifier: Apache-2.0
// sanitized.h: whether this is a build under a sanitizer.
#pragma once

namespace barcuda {

#ifdef BARCUDA_SANITIZED
constexpr bool sanitized = true;
#else
constexpr bool sanitized = false;
#endif

// The step of a loop over very many cases: a plain build runs each of them, a build under a sanitizer every fifth.
constexpr int sanitized_step = sanitized ? 5 : 1;

}  // namespace barcuda
