// SPDX-License-Identifier: Apache-2.0
// hints.h: what to do here in place of commands that other programs have.
#pragma once
#include "host-bridge/usage.h"

namespace barcuda {

const Elsewhere& hints();

}  // namespace barcuda
