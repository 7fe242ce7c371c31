// registrations.h: the ranges that cudaHostRegister was told of: a sorted table under one lock, searched by halves.
#pragma once
#include "guest-allocator/heap/heap.h"

namespace barcuda::heap {

// True if one registered range holds all of [p, p + bytes). One load when nothing is registered.
bool find_registered(const void* p, std::size_t bytes, Found& out) noexcept;

// The registered range, outside the region, whose pages the device finds at p.
bool find_lent(const void* p, Found& out) noexcept;

// For fork.cc.
void lock_registrations() noexcept;
void unlock_registrations() noexcept;
void forget_registrations() noexcept;  // in a child: CUDA's registrations are the parent's

}  // namespace barcuda::heap
