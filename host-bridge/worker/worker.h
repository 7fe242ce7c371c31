// SPDX-License-Identifier: Apache-2.0
// worker.h: the process that serves one client and owns its CUDA contexts. It is started before there is a client (a
// warm worker has its context ready), is assigned one, and ends with it: no worker ever serves two.
#pragma once
#include <string>

namespace barcuda {

// Runs in the worker process; returns its exit status. `library`: the driver to open.
int run_worker(const std::string& library, bool warm);

}  // namespace barcuda
