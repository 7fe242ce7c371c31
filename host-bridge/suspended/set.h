// SPDX-License-Identifier: Apache-2.0
// set.h: a suspended VM as a folder:
//
//   set.json     what it is, and the length and hash of each other file (description.h)
//   region.zst   the region's bytes, in frames (frames.h)
//   books.zst    the bridge's (bridge/ledger.h)
//   client-N/    for the client of channel N: births, code.zst, memory.zst
//   vm.zst       the VM without the region, as QEMU has written it; not where QEMU was told by others
//   domain.xml   libvirt's description of it, if it is a domain of libvirt's
//
// A set is the memory of a VM: only its user may read it. It is written beside its place (DIR.part), which is locked
// meanwhile, synced, and gets its name last, so a set that has its name is whole. A reader believes nothing that has
// another owner, that others may write to, or that a link leads to, and it verifies every byte before it gives out the
// first one.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/failure.h"
#include "base/message.h"
#include "host-bridge/suspended/description.h"
#include "host-bridge/suspended/digest.h"
#include "host-bridge/suspended/frames.h"
#include "host-bridge/suspended/wide_file.h"

namespace barcuda {

// Where a VM that is being suspended goes: a folder, or a stream (sent_set.h).
class SetPlace {
  public:
    using Sink = std::function<Failure(std::span<const std::byte>)>;
    SetPlace() = default;
    SetPlace(const SetPlace&) = delete;
    virtual ~SetPlace() = default;

    // Frames of that part which are there already.
    virtual FrameWriter::Known known(const std::string& name) {
        (void)name;
        return {};
    }
    // ---- several parts can be written at once
    // A new part. `sink` gets its bytes in their order.
    virtual Failure make(const std::string& name, Sink& sink) = 0;
    // In place of it, if the part can be written in any order, and by several threads.
    virtual FrameWriter::SinkAt sink_at(const std::string& name) {
        (void)name;
        return {};
    }
    // A file without a name for what is needed while the parts are written: nothing of it stays, however this process
    // ends. `most`: bytes that may be put into it.
    virtual Failure aside(File& file, std::uint64_t& most) {
        (void)file;
        (void)most;
        return "there is no place for it";
    }
    // The part is complete: its size and its hash.
    virtual Failure finish(const std::string& name, std::uint64_t bytes, const Digest& digest) = 0;
    // Adds the parts to the description. Behind it the VM's set is whole, and there.
    virtual Failure commit(Description description) = 0;
    // And is not needed: the VM goes on.
    virtual void take_back() = 0;
};

class SetWriter : public SetPlace {
  public:
    // Removes what was written, unless it was committed.
    ~SetWriter() override;

    // `folder` must not be there yet, or be empty. What a command that was killed has left beside it is removed.
    Failure begin(const std::string& folder);
    Failure make(const std::string& name, Sink& sink) override;
    FrameWriter::SinkAt sink_at(const std::string& name) override;
    // At most half of what is free.
    Failure aside(File& file, std::uint64_t& most) override;
    Failure finish(const std::string& name, std::uint64_t bytes, const Digest& digest) override;
    // Gives the folder its name.
    Failure commit(Description description) override;
    void take_back() override;

  private:
    Failure take_folder();
    Failure remove_left() const;
    Failure failed(const std::string& name) const;
    Failure make_file(const std::string& name, File& file) const;

    std::string place_, part_;
    File folder_;  // locked: a command that was killed has lost the lock
    struct Begun {
        File file;
        std::shared_ptr<WideFile> wide;  // while it is written in any order
    };
    std::mutex mutex_;
    std::map<std::string, Begun> files_;  // of parts that are not complete
    std::vector<Description::Part> parts_;
};

class SetReader {
  public:
    // Looks at the description, and at the lengths and owners of all parts.
    Failure open(const std::string& folder);
    // Reads every byte, in several threads. Before that, no part is given out. `goes_on`: each of them asks it before
    // each piece, and its failure ends all.
    Failure verify(const std::function<Failure()>& goes_on = {});
    const Description& description() const { return description_; }
    // The open file of a part, from its beginning; the reader keeps it.
    const File& part(const std::string& name) const { return verified_ ? files_.at(name) : none_; }

  private:
    Failure open_part(const File& folder, const Description::Part& part);

    std::string path_;
    Description description_;
    std::map<std::string, File> files_;
    const File none_{};
    bool verified_ = false;
};

}  // namespace barcuda
