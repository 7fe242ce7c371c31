// SPDX-License-Identifier: Apache-2.0
// trace.h: BARCUDA_TRACE=FILE: a timeline of a run, in a file that Perfetto (ui.perfetto.dev) opens. Guest and worker
// record a slice for each command; on the flat transport both write to the same file and read the same clock, so their
// lanes are aligned. The program's own ranges (guest-allocator/client/nvtx.cc) are there too. In a VM each side writes
// a file with its own clock; `barcuda trace` merges them (host-bridge/cli/trace.cc).
//
// The file is the JSON array of the trace event format, one event a line, and complete at any time: processes insert
// whole lines in front of its closing bracket, one process at a time. When tracing is off, a slice costs one load of a
// flag.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace barcuda::trace {

extern bool on;

void start(const char* file) noexcept;  // what BARCUDA_TRACE does before main()
// Begins a run of several processes: the file that BARCUDA_TRACE names is theirs alone. Lines of an earlier run are
// removed; any other contents stay, and the result is an error's text. nullptr: done, or there is no such variable.
const char* begin_run() noexcept;
// This process is a worker, and its client has this pid in its guest: so `barcuda trace` finds files that belong
// together.
void serves(std::uint32_t client) noexcept;
// A process that wrote to the file has been killed, perhaps in the middle of a write: removes half a line and closes
// the array. A file that is not there, is empty or is no trace stays as it is.
void complete() noexcept;
void flush() noexcept;  // writes what is held back; also done regularly, and at exit
// In a forked child, where another thread of the parent may hold the lock: the parent writes what is held back, the
// child only its own events.
void forked() noexcept;

std::int64_t clock() noexcept;  // nanoseconds
void take(std::string_view name, std::int64_t start) noexcept;

// An event of any other kind: its phase (a letter), its begin, its thread (0: the calling thread), and the rest of the
// line: JSON members, at most `most_members` bytes.
constexpr std::size_t most_members = 4096;
void note(char phase, std::int64_t at, std::uint32_t thread, std::string_view members) noexcept;

class Slice {  // from here to the end of the block; the name must stay valid (it is the command's, from the table)
  public:
    explicit Slice(std::string_view name) noexcept : name_(name) {
        if (on) [[unlikely]]
            start_ = clock();
    }
    ~Slice() {
        if (on) [[unlikely]]
            take(name_, start_);
    }
    Slice(const Slice&) = delete;
    Slice& operator=(const Slice&) = delete;

  private:
    std::string_view name_;
    std::int64_t start_ = 0;
};

}  // namespace barcuda::trace
