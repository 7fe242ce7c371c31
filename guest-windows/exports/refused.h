// SPDX-License-Identifier: Apache-2.0
// refused.h: names that this library exports and that only say that the function is not there (mk/windows.mk).
#pragma once

extern "C" const char* const barcuda_refused[];  // a null ends it
