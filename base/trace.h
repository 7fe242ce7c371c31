// SPDX-License-Identifier: Apache-2.0
// trace.h: BARCUDA_TRACE=FILE: where the time of a run went, as a file that Perfetto (ui.perfetto.dev) opens. Guest and
// worker take a slice for each command; on the flat transport both write to the same file and read the same clock, so
// that their lanes stand one under the other. What the program itself says (guest-allocator/client/nvtx.cc) is there too. In a VM
// each side writes a file of its own, with a clock of its own; `barcuda trace` puts them on one (host-bridge/cli/trace.cc).
//
// The file is the JSON array of the trace event format, one event a line, and whole at any time: several processes write whole
// lines in front of its closing bracket, one after the other. Off, a slice costs the look at one flag.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace barcuda::trace {

extern bool on;

void start(const char* file) noexcept;  // what BARCUDA_TRACE does before main()
// A run begins, of several processes: the file that BARCUDA_TRACE names is theirs alone. What an earlier run wrote there goes;
// anything else stays, and is an error's text. nullptr: done, or there is no such variable.
const char* begin_run() noexcept;
// This process is a worker, whose client has this pid in its guest: by that the two files are told to belong together.
void serves(std::uint32_t client) noexcept;
void flush() noexcept;  // writes what is held back; it also happens by itself, and at exit
// In a forked child, where another thread of the parent may have held the lock: what is held back is the parent's to write,
// what comes is the child's own.
void forked() noexcept;

std::int64_t clock() noexcept;  // nanoseconds
void take(std::string_view name, std::int64_t start) noexcept;

// An event of any other kind: its phase (a letter), when it began, whose it is (0: the calling thread's), and the rest of the
// line: JSON members, at most `most_members` bytes.
constexpr std::size_t most_members = 4096;
void note(char phase, std::int64_t at, std::uint32_t thread, std::string_view members) noexcept;

class Slice {  // from here to the end of the block; the name stays valid (it is the command's, from the table)
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
