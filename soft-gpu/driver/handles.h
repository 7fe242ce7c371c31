// SPDX-License-Identifier: Apache-2.0
// handles.h: checked handles. A program may pass any value: an unknown or stale handle gives CUDA_ERROR_INVALID_HANDLE
// and not a crash, and a call that uses an object keeps it alive.
#pragma once
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>
#include <vector>

#include "soft-gpu/driver/api.h"

namespace barcuda::soft::driver {

// Handle is the API's opaque pointer type, T the type of the object.
template <class Handle, class T> class Handles {
  public:
    explicit Handles(CUresult invalid = CUDA_ERROR_INVALID_HANDLE) : invalid_(invalid) {}

    Handle add(std::shared_ptr<T> object) {
        const auto handle = handle_of(*object);
        std::unique_lock lock(mutex_);
        objects_[handle] = std::move(object);
        return handle;
    }
    static Handle handle_of(const T& object) { return reinterpret_cast<Handle>(const_cast<T*>(&object)); }

    std::shared_ptr<T> find(Handle handle) const {
        auto object = try_find(handle);
        if (!object) fail(invalid_);
        return object;
    }
    std::shared_ptr<T> try_find(Handle handle) const {
        std::shared_lock lock(mutex_);
        const auto found = objects_.find(handle);
        return found == objects_.end() ? nullptr : found->second;
    }
    // Makes the handle invalid.
    std::shared_ptr<T> take(Handle handle) {
        std::unique_lock lock(mutex_);
        const auto found = objects_.find(handle);
        if (found == objects_.end()) fail(invalid_);
        auto object = std::move(found->second);
        objects_.erase(found);
        return object;
    }
    std::vector<std::shared_ptr<T>> all() const {
        std::vector<std::shared_ptr<T>> objects;
        std::shared_lock lock(mutex_);
        for (const auto& [handle, object] : objects_) objects.push_back(object);
        return objects;
    }
    void drop(Handle handle) {
        std::unique_lock lock(mutex_);
        objects_.erase(handle);
    }
    // Takes all objects for which `of` holds: those of a context that ends.
    template <class Predicate> std::vector<std::shared_ptr<T>> take_if(const Predicate& of) {
        std::vector<std::shared_ptr<T>> taken;
        std::unique_lock lock(mutex_);
        for (auto at = objects_.begin(); at != objects_.end();) {
            if (of(*at->second)) {
                taken.push_back(std::move(at->second));
                at = objects_.erase(at);
            } else {
                ++at;
            }
        }
        return taken;
    }

  private:
    const CUresult invalid_;
    mutable std::shared_mutex mutex_;
    std::unordered_map<Handle, std::shared_ptr<T>> objects_;
};

}  // namespace barcuda::soft::driver
