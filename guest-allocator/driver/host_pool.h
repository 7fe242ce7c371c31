// SPDX-License-Identifier: Apache-2.0
// host_pool.h: pools of memory on the host (cuMemPoolCreate with a host's location): pinned memory of the region, which
// CPU and GPU find at one address. The guest serves them; no worker knows of them. The stream in whose order a block is
// freed may get it again at once, other streams when that stream has reached the free.
#pragma once
#include <cuda.h>

#include <cstddef>

namespace barcuda::guest::host_pool {

bool is_one(CUmemoryPool pool) noexcept;

// As cuMemPoolCreate of properties that may_be_made() and are on the host.
CUmemoryPool create(const CUmemPoolProps& properties) noexcept;
// The pool that the host has at this place, and the one that it uses there; set_current() refuses a pool of another
// place.
CUmemoryPool standard(const CUmemLocation& place) noexcept;
CUmemoryPool current(const CUmemLocation& place) noexcept;
CUresult set_current(const CUmemLocation& place, CUmemoryPool pool) noexcept;

// These as the driver's functions of that name: of a pool that is one, and where nothing is said else of arguments that
// may be null.
CUresult destroy(CUmemoryPool pool) noexcept;
CUresult trim_to(CUmemoryPool pool) noexcept;
CUresult get_attribute(CUmemoryPool pool, CUmemPool_attribute attribute, void* value) noexcept;
CUresult set_attribute(CUmemoryPool pool, CUmemPool_attribute attribute, const void* value) noexcept;
CUresult set_access(CUmemoryPool pool, const CUmemAccessDesc* list, std::size_t count) noexcept;
CUresult get_access(CUmemAccess_flags* flags, CUmemoryPool pool, const CUmemLocation* place) noexcept;

CUresult allocate(CUdeviceptr* p, std::size_t bytes, CUmemoryPool pool, CUstream stream) noexcept;
// Frees a block in the stream's order; or, after a wait for all devices, at once.
CUresult free_in(void* p, CUstream stream) noexcept;
CUresult free_now(void* p) noexcept;
// The pool of the block that begins here; null: none does.
CUmemoryPool pool_of(const void* p) noexcept;

}  // namespace barcuda::guest::host_pool
