// SPDX-License-Identifier: Apache-2.0
// vm_kept.h: a VM that `barcuda vm --name` keeps: its disk, in a folder of the user's, and which process runs it. A VM
// runs while a process holds its lock, so a VM whose process was killed does not run.
#pragma once
#include <string>
#include <vector>

#include "base/cli/app.h"
#include "base/failure.h"
#include "base/message.h"
#include "host-bridge/cli/vm_parts.h"

namespace barcuda::parts {

class KeptVm {
  public:
    explicit KeptVm(std::string name);
    static std::vector<KeptVm> all();
    static Failure check_name(const std::string& name);

    const std::string& name() const { return name_; }
    bool exists() const;    // has been started at least once
    bool has_disk() const;  // its first start has succeeded
    bool runs() const;
    std::string runs_already() const;  // what to say then
    Failure make() const;              // its folder
    // This process runs it from now on. A failure: another one does, or its folder cannot be made.
    Failure take();
    // The disk: at first a copy of this one, later the kept one, with all that the guest has written. The copy is the
    // VM's disk only after `finish`: a guest that was never ready is made again the next time.
    Failure keep(Disk& disk) const;
    Failure finish() const;
    void discard() const;  // the copy, if it is not finished
    // The guest's packages, so that later starts need no other folder. Changes `packages` to the copies.
    Failure keep_packages(Words& packages) const;
    std::string packages() const { return folder_ + "/packages"; }
    // What `ssh` and `stop` need: the process, and the folder with the configuration of ssh. `ssh`: a configuration
    // that has the VM under its name, for the user's own to include while the VM runs.
    void record(const std::string& folder, const std::string& ssh) const;
    pid_t process() const;
    std::string run_folder() const;
    std::string log() const { return folder_ + "/log"; }
    Failure await_end() const;  // of its process
    void begin() const;         // its guest starts
    // How its last run has ended: with the guest's power off, or a sentence that says how else.
    void record_end(const Failure& lost) const;
    Failure end() const;
    Failure remove() const;

  private:
    std::string name_, folder_;
    File lock_;
};

// Adds `list`, `ssh`, `stop` and `rm` to `barcuda vm`.
void add_kept_vms(App& app, Command vm);

}  // namespace barcuda::parts
