// SPDX-License-Identifier: Apache-2.0
// own_bridge.h: a region and a bridge for one command alone (`barcuda run`, `barcuda vm`): both are gone when it ends.
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/cli/command.h"
#include "base/cli/installation.h"

namespace barcuda {

struct BridgeOptions {
    std::string device = "auto";
    std::string gpus;           // of this machine; empty: all
    std::string wrapper;        // around the worker
    std::string no_cage, cage;  // measures that are left out, and taken on
    std::uint64_t region_size = 4ull << 30;
};
// --device, --gpus and --region-size.
void add_bridge_options(Command command, BridgeOptions& options);
// --worker-wrapper, --no-cage and --cage.
void add_worker_options(Command command, BridgeOptions& options);

// Where the region lies: in /dev/shm, in a folder of this user's alone (mode 0700), which is removed at the end with
// all that is in it. Others see the folder's name, but can put nothing of that name or into it.
class OwnFolder {
  public:
    explicit OwnFolder(const char* command);
    ~OwnFolder();
    OwnFolder(const OwnFolder&) = delete;
    explicit operator bool() const { return made_; }  // or errno says why it is not there
    const std::string& path() const { return path_; }

  private:
    std::string path_;
    const bool made_;
};

// How the bridge of `region` is started: it understands these options as well.
std::vector<std::string> bridge_words(const Installation& here, const std::string& region, const std::string& name,
                                      const BridgeOptions& options);

struct OwnBridge {
    pid_t pid = -1;   // -1: there is none
    int served = -1;  // read from it: the end comes when all that the bridge has made is gone
};
// Starts it for a command and waits until guests may come; or it has said why not. `soft`: it has taken the
// software GPU. `chooses`: CUDA_VISIBLE_DEVICES is a program's, which chooses among the GPUs that this bridge shows.
OwnBridge start_bridge(const char* command, std::vector<std::string> words, bool chooses, bool& soft);
// Ends it, and waits until its workers have gone, and the GPU is free; not for the rest of its process.
void end_bridge(OwnBridge bridge);

}  // namespace barcuda
