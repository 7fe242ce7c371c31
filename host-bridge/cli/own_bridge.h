// SPDX-License-Identifier: Apache-2.0
// own_bridge.h: a region and a bridge for a single command (`barcuda run`, `barcuda vm`); both end with the command.
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/cli/command.h"
#include "base/cli/installation.h"

namespace barcuda {

struct OwnBridgeOptions {
    std::string device = "auto";
    std::string gpus;           // of this machine; empty: all
    std::string device_memory;  // empty: the bridge's default
    std::string cards, store, store_ready, wait, card_reserve,
        context_idle;           // as the bridge reads them; empty: its defaults
    std::string wrapper;        // a program around the worker
    std::string no_cage, cage;  // measures to leave out, and to take
    std::uint64_t region_size = 4ull << 30;
};
// Adds --device, --gpus, --device-memory, --cards and what belongs to it, and --region-size.
void add_bridge_options(Command command, OwnBridgeOptions& options);
// Adds --worker-wrapper, --no-cage and --cage.
void add_worker_options(Command command, OwnBridgeOptions& options);

// The region's folder: in /dev/shm, accessible only to this user (mode 0700), and removed at the end with everything in
// it. Other users see the folder's name, but cannot put anything in its place or into it.
class OwnFolder {
  public:
    explicit OwnFolder(const char* command);
    ~OwnFolder();
    OwnFolder(const OwnFolder&) = delete;
    explicit operator bool() const { return made_; }  // or errno says why it could not be made
    const std::string& path() const { return path_; }

  private:
    std::string path_;
    const bool made_;
};

// The command line that starts the bridge of `region`; it contains these options.
std::vector<std::string> bridge_words(const Installation& here, const std::string& region, const std::string& name,
                                      const OwnBridgeOptions& options);

// Starts a bridge and waits until it is ready. `prepare` is called in its process, and may add words. If the bridge
// does not get ready, or a signal interrupts the wait, it is ended.
struct StartedBridge {
    pid_t pid = -1;  // -1: it did not start; it has said why
    bool soft = false;
};
StartedBridge start_until_ready(const char* command, std::vector<std::string> words,
                                const std::function<void(std::vector<std::string>&)>& prepare);

struct OwnBridge {
    pid_t pid = -1;   // -1: there is none
    int served = -1;  // end of file when everything that the bridge has made is gone
};
// Starts a bridge for a command and waits until it is ready; if it fails, it has printed why. `soft`: it uses the
// software GPU. `chooses`: CUDA_VISIBLE_DEVICES belongs to the program, and chooses among the GPUs that this bridge
// shows.
OwnBridge start_bridge(const char* command, const std::vector<std::string>& words, bool chooses, bool& soft);
// Ends the bridge, and waits until its workers have ended and the GPU is free, but not for the rest of its process.
void end_bridge(OwnBridge bridge);

}  // namespace barcuda
