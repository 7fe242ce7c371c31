// SPDX-License-Identifier: Apache-2.0
// sanitized.h: BARCUDA_SANITIZED is 1 in a build under AddressSanitizer or ThreadSanitizer. The process's malloc is the
// sanitizer's then, and no function of this library can run before the sanitizer has started.
#pragma once

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define BARCUDA_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define BARCUDA_SANITIZED 1
#endif
#endif
#ifndef BARCUDA_SANITIZED
#define BARCUDA_SANITIZED 0
#endif
