// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/cli/notices.h"

#include "base/cli/installation.h"
#include "guest-allocator/commands/machine.h"

namespace barcuda {
namespace {

bool is_guest_alone() {
    const Machine here;
    return !here.bridge && (here.is_guest() || here.guest_package);
}

}  // namespace

std::string with_hint(const std::string& text) {
    return is_guest_alone() ? text +
                                  " This is a guest, and bridges run on its host: `barcuda smi` shows its GPUs and "
                                  "the programs that use them."
                            : text;
}

std::string bridge_is_missing(const Installation& here) {
    return is_guest_alone() ? "this is a guest, and bridges run on its host: `barcuda exec PROGRAM` runs a program "
                              "with the VM's GPUs"
                            : here.bridge + " is missing: run make, or install Debian's package barcuda-host";
}

}  // namespace barcuda
