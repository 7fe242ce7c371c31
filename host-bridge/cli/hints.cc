// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/cli/hints.h"

namespace barcuda {

const std::map<std::string, std::string>& hints() {
    static const std::map<std::string, std::string> all = {
        {"list", "`barcuda ps` lists bridges and their clients"},
        {"ls", "`barcuda ps` lists bridges and their clients"},
        {"info", "`barcuda doctor` says what is installed, `barcuda ps` what runs"},
        {"status", "`barcuda ps` says what runs, `barcuda doctor` whether all is well"},
        {"start", "`barcuda bridge start NAME` starts a bridge, `barcuda run` one for a program"},
        {"stop", "`barcuda bridge stop NAME` ends a bridge, `barcuda vm stop NAME` a VM"},
        {"logs", "`journalctl -u barcuda-bridge@NAME` shows a bridge's log"},
    };
    return all;
}

}  // namespace barcuda
