// SPDX-License-Identifier: Apache-2.0
// barcuda.exe: of the command for users what a Windows guest has.
#include "host-bridge/cli/commands.h"
#include "shm-device/version_text.h"

int main(int argc, char** argv) {
    barcuda::App app({}, barcuda::version_text());
    for (barcuda::AddCommand* const add : {barcuda::add_exec, barcuda::add_doctor, barcuda::add_smi, barcuda::add_help})
        add(app);
    return app.run(argc, argv);
}
