// SPDX-License-Identifier: Apache-2.0
// worker.h: the process that serves one client and owns its CUDA contexts. It starts before there is a client (a warm
// worker has its context ready), is assigned to one, and ends with it: no worker serves two clients.
#pragma once
#include <string>

namespace barcuda {

// Runs in the worker process; returns its exit status. `library`: the driver to open. `blocks`: cuMemAlloc gives memory
// of ours (memory/layer.h).
int run_worker(const std::string& library, bool warm, bool blocks);

}  // namespace barcuda
