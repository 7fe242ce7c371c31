// SPDX-License-Identifier: Apache-2.0
// set.h: a suspended VM as a folder:
//
//   set.json     what it is, and the length and hash of each other file (description.h)
//   region.zst   the region's bytes, in frames (frames.h)
//   books.zst    the bridge's (bridge/ledger.h)
//   client-N/    for the client of channel N: births, code, memory.zst
//   vm.zst       the VM without the region, as QEMU has written it; not where QEMU was told by others
//   domain.xml   libvirt's description of it, if it is a domain of libvirt's
//
// A set is the memory of a VM: only its user may read it. It is written beside its place (DIR.part), synced, and gets
// its name last, so a set that has its name is whole. A reader believes nothing that has another owner, that others may
// write to, or that a link leads to, and it verifies every byte before it gives out the first one.
#pragma once
#include <cstdint>
#include <map>
#include <string>

#include "base/failure.h"
#include "base/message.h"
#include "host-bridge/suspended/description.h"
#include "host-bridge/suspended/digest.h"

namespace barcuda {

class SetWriter {
  public:
    SetWriter() = default;
    SetWriter(const SetWriter&) = delete;
    // Removes what was written, unless it was committed.
    ~SetWriter();

    // `folder` must not be there yet, or be empty.
    Failure begin(const std::string& folder);
    // An empty file for that part.
    Failure make(const std::string& name, File& file);
    // The part is complete: its size and its hash.
    Failure finish(const std::string& name, const File& file, std::uint64_t bytes, const Digest& digest);
    // Adds the parts to the description, and gives the folder its name.
    Failure commit(Description description);
    // Removes it again: the VM goes on.
    void take_back();

  private:
    Failure failed(const std::string& name) const;

    std::string place_, part_;
    File folder_;
    std::vector<Description::Part> parts_;
};

class SetReader {
  public:
    // Verifies all of it.
    Failure open(const std::string& folder);
    const Description& description() const { return description_; }
    // The open file of a part, from its beginning; the reader keeps it.
    const File& part(const std::string& name) const { return files_.at(name); }

  private:
    Failure open_part(const File& folder, const Description::Part& part);

    Description description_;
    std::map<std::string, File> files_;
};

}  // namespace barcuda
