// SPDX-License-Identifier: Apache-2.0
// map.h: mappings of memory in this process. Nothing here allocates, for the heap calls it from within malloc. A
// function that returns int returns 0 or an errno, and has mapped nothing if it is not 0.
#pragma once
#include <cstddef>
#include <cstdint>

namespace barcuda::os {

enum class Access : std::uint8_t { none, read, write };   // write: and read
enum class Over : std::uint8_t { nothing, any_mapping };  // what a mapping may replace

// Part of a file, shared with all that map it. Where is the kernel's choice; `wish` if that is free.
int map_file(int file, std::uint64_t offset, std::size_t bytes, Access access, void** address, void* wish = nullptr);
// The same at this address, to be written. EEXIST: something else is mapped there.
int map_file_at(int file, std::uint64_t offset, void* address, std::size_t bytes, Over over);
// Memory of this process alone, zero. Without access it costs address space only. `sparse`: most of it will not be
// touched.
int map_memory(std::size_t bytes, Access access, void** address, bool sparse = false);
// The same, with more bytes, perhaps at another address; `address` stays as it was if there is no room.
int grow_memory(std::size_t bytes, std::size_t more, void** address);
int allow(void* address, std::size_t bytes, Access access);
// Memory of this process alone that is not needed any more: reads as zeros from here on.
void forget(void* address, std::size_t bytes);
// Writes to each page without changing it. False: this kernel cannot, or not here.
bool touch_to_write(void* address, std::size_t bytes);
// Keeps addresses from all others, as far as no mapping has them. False: not all of them, or not at all.
bool reserve(std::uintptr_t begin, std::uintptr_t end);
void unmap(void* address, std::size_t bytes);

// Moves the mapping at `from` to `to`, in place of the mapping there.
int move_mapping(void* from, std::size_t bytes, void* to);
// Maps the same part of the file at `to` as well, in place of the mapping there.
int copy_mapping(void* from, std::size_t bytes, void* to);
// Forked children do not get this mapping.
void keep_from_children(void* address, std::size_t bytes);

// Names what lies in [from, to) for a person: the first mapping that does.
void name_mapping(std::uintptr_t from, std::uintptr_t to, char* text, std::size_t size);

}  // namespace barcuda::os
