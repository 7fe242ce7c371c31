// SPDX-License-Identifier: Apache-2.0
// file.h: open files that a library holds in a program's process, and what the kernel says of them.
#pragma once
#include <cstddef>
#include <cstdint>

namespace barcuda::os {

// Facts about a file, by its path or its descriptor.
struct FileFacts {
    enum class Type : std::uint8_t { other, regular, characters, socket };
    enum class System : std::uint8_t { other, proc, sysfs, huge_pages };
    Type type = Type::other;
    System system = System::other;
    std::uint64_t size = 0, block = 0;  // bytes; `block`: of the file system's blocks
    std::uint64_t blocks = 0;           // that the file occupies
    std::uint64_t device = 0, inode = 0;
    unsigned major = 0, minor = 0;  // of a device node
    unsigned owner = 0, mode = 0, names = 0;
    bool all_may_write = false;
};
// Returns 0 or an errno.
int facts_of(int file, FileFacts& facts);
// Whether there is a socket of this name.
bool is_socket(const char* path);
// Names of open files (/proc/PID/fd/N) are links too, but only the kernel makes them.
bool names_a_descriptor(const char* path);
// Whether this name leads to the open file, and to no link.
bool is_named(int file, const char* path);

// Reads the first byte: a process that watches the file notices.
void touch(int file);

// A small text file of the kernel, without its newline. False: it cannot be read.
bool read_line(const char* path, char* line, std::size_t size);

// A descriptor of the library. Programs close descriptors that they did not open (daemons close all), and open other
// files under the same number. To map such a file would be a disaster, so a KeptFile remembers which file it is.
class KeptFile {
  public:
    KeptFile() = default;
    ~KeptFile() { close(); }
    KeptFile(KeptFile&& other) noexcept;
    KeptFile& operator=(KeptFile&& other) noexcept;

    // Takes a fresh descriptor and moves it to a high number: some programs expect 3 from their first open(). Returns 0
    // or an errno; after an error the descriptor is kept, but its file is not known.
    int keep(int fd);
    // Opens the file again, if the path leads to the same one.
    bool open_again(const char* path);
    void close();  // leaves a number alone that the program has used for another file

    int fd() const { return fd_; }
    bool is_ours() const;

  private:
    int fd_ = -1;
    bool known_ = false;
    std::uint64_t device_ = 0, inode_ = 0;
};

// Locks of one byte of a file. A process's lock ends with the process, or when it closes any descriptor of the file; an
// open file's lock ends with the last descriptor or mapping of that open file.
enum class Holder : std::uint8_t { process, open_file };
enum class Lock : std::uint8_t { none, shared, exclusive };
// 0 or errno; EAGAIN: another holder has it.
int lock_byte(int file, std::uint64_t offset, Lock lock, Holder holder);
// Whether this open file could lock it alone. EAGAIN: another holder has it.
int probe_byte(int file, std::uint64_t offset);

}  // namespace barcuda::os
