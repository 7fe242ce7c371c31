// SPDX-License-Identifier: Apache-2.0
// export.h: how a function of CUPTI's is spelled. What is not in this folder refuses (exports/unsupported.sh).
#pragma once
#include <cupti.h>

#define CUPTI extern "C" [[gnu::visibility("default")]] CUptiResult CUPTIAPI
