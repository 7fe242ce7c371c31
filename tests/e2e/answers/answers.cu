// SPDX-License-Identifier: Apache-2.0
// answers.cu: asks CUDA's driver and runtime thousands of questions and prints a line for each: the question, a tab,
// the answer: codes and values that do not change from run to run. Most are mistakes. It runs natively and through
// Barcuda; test_answers.py compares. `answers GROUP...` asks those groups whose names begin so.
#include "attributes.h"
#include "books.h"
#include "contexts.h"
#include "copies.h"
#include "documented.h"
#include "functions.h"
#include "graphs.h"
#include "modules.h"
#include "names.h"
#include "pointers.h"
#include "pools.h"
#include "seldom.h"
#include "states.h"
#include "streams.h"

int main(int argc, char** argv) {
    std::vector<ask::Group> groups = {
        {"entries", entries},
        {"entry_flags", entries_flags},
        {"runtime_entries", runtime_entries},
        {"error_names", error_names},
        {"before_init", before_init},
        {"without_context", without_context},
        {"after_pop", after_pop},
        {"after_destroy", after_destroy},
        {"good", after_good_calls},
        {"in_host_function", in_host_function},
        {"after_fork_init", [] { after_fork(0); }},
        {"after_fork", [] { after_fork(1); }},
        {"pointers", pointer_attributes},
        {"freeing", freeing},
        {"registering", registering},
        {"filling", filling},
        {"stream_memory", stream_memory},
        {"copies", [] { by_kind(false); }},
        {"copies_async", [] { by_kind(true); }},
        {"driver_copies", driver_copies},
        {"copies_2d", copies_2d},
        {"copies_3d", copies_3d},
        {"arrays", arrays},
        {"batches", batches},
        {"attributes", device_attributes},
        {"functions", functions},
        {"contexts", contexts},
        {"streams", streams_and_events},
        {"pools", pools},
        {"virtual", virtual_memories},
        {"modules", modules},
        {"graphs", graphs},
        {"seldom", seldom},
        {"books", books},
        {"releases", releases},
        {"documented", documented},
        {"capture_ends", capture_ends},
    };
    const char* const faults[] = {"address", "trap", "misaligned", "shared", "launch"};
    for (int what = 0; what < 5; ++what) {
        groups.push_back({string("fault_") + faults[what], [what] { after_fault(what); }});
        if (what < 4) groups.push_back({string("first_") + faults[what], [what] { after_fault_first(what); }});
    }
    for (int mode = 0; mode < 3; ++mode) {
        for (int caller = 0; caller < 5; ++caller)
            groups.push_back({string("capture_") + mode_names[mode] + "_" + caller_names[caller],
                              [=] { capture(mode, static_cast<Caller>(caller)); }});
        groups.push_back({string("capture_itself_") + mode_names[mode], [=] { capture_itself(mode); }});
        groups.push_back({string("capture_blocking_") + mode_names[mode], [=] { capture_blocking(mode); }});
    }
    return ask::main(argc, argv, groups);
}
