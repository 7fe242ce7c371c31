// SPDX-License-Identifier: Apache-2.0
// saved_guest.h: a guest that QEMU has written, as a set has it (part_of_vm), for the QEMU that goes on with it.
#pragma once
#include "base/failure.h"
#include "base/message.h"
#include "host-bridge/cli/qemu.h"

namespace barcuda {

// Gives QEMU the guest, whose bytes were verified. Behind it QEMU has all of it, and the guest is stopped. SIGPIPE
// must be ignored. A QEMU that has begun to read and does not end it is of no more use.
Failure load_guest(const File& part, Qemu& qemu);

}  // namespace barcuda
