// SPDX-License-Identifier: Apache-2.0
// user_objects.h: the client's objects that graphs keep (CUuserObject). The driver counts references, and follows any
// handle without a check; this class knows which objects exist.
#pragma once
#include <cuda.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

namespace barcuda {

struct Driver;

class UserObjects {
  public:
    explicit UserObjects(const Driver& driver) : driver_(driver) {}

    CUresult create(CUuserObject* object, std::uint64_t destroy, unsigned references, unsigned flags);
    bool there(CUuserObject object) const;

  private:
    struct Object {
        std::uint64_t destroy;  // the client's function
        UserObjects* all;
        CUuserObject handle = nullptr;  // null: not yet told, or gone
    };
    static void CUDA_CB destroyed(void* object);  // on a thread of the driver's

    const Driver& driver_;
    mutable std::mutex mutex_;
    std::map<CUuserObject, std::unique_ptr<Object>> objects_;
};

}  // namespace barcuda
