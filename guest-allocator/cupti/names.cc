// SPDX-License-Identifier: Apache-2.0
// names.cc: generated of the toolkit's headers and of what the library has (mk/archives.mk): the names that CUPTI
// numbers, and the functions that programs enter, in the order of their entries.
#include "guest-allocator/cupti/names.h"

#include <cupti_entries.h>
#include <cupti_names.h>

#include <iterator>
#include <string_view>
#include <vector>

#include "guest-allocator/client/activity.h"

namespace barcuda::guest::cupti {
namespace {

struct Numbered {
    CUpti_CallbackId id;
    const char* name;
};
#define X(id, name) {id, #name},
constexpr Numbered driver_calls[] = {BARCUDA_DRIVER_CALLS(X)}, runtime_calls[] = {BARCUDA_RUNTIME_CALLS(X)};
#undef X
#define X(name) #name,
constexpr const char *driver_entries[] = {BARCUDA_DRIVER_ENTRIES(X)}, *runtime_entries[] = {BARCUDA_RUNTIME_ENTRIES(X)};
#undef X
static_assert(std::size(driver_entries) < activity::of_runtime);

// cudaMalloc of cudaMalloc_v3020.
constexpr std::string_view without_version(std::string_view name) {
    const std::size_t at = name.rfind("_v");
    return at == name.npos ? name : name.substr(0, at);
}
static_assert(without_version("cudaMalloc_v3020") == "cudaMalloc");

template <std::size_t n, std::size_t m>
std::vector<Function> found(CUpti_CallbackDomain domain, const char* const (&entries)[n], const Numbered (&calls)[m]) {
    std::vector<Function> all;
    all.reserve(n);
    for (const char* const entry : entries) {
        Function f{domain, 0, entry, domain == CUPTI_CB_DOMAIN_DRIVER_API ? gather_of(entry) : nullptr};
        for (const auto& [id, name] : calls)  // of several versions the last
            if ((domain == CUPTI_CB_DOMAIN_RUNTIME_API ? without_version(name) : name) == std::string_view(entry))
                f.id = id;
        all.push_back(f);
    }
    return all;
}

}  // namespace

const Function* function_at(std::uint32_t entry) noexcept {
    static const auto& driver = *new std::vector(found(CUPTI_CB_DOMAIN_DRIVER_API, driver_entries, driver_calls));
    static const auto& runtime = *new std::vector(found(CUPTI_CB_DOMAIN_RUNTIME_API, runtime_entries, runtime_calls));
    const Function& f = entry & activity::of_runtime ? runtime[entry & ~activity::of_runtime] : driver[entry];
    return f.id ? &f : nullptr;
}

const char* name_of(CUpti_CallbackDomain domain, CUpti_CallbackId id) noexcept {
    const auto look = [id](const auto& calls) -> const char* {
        for (const Numbered& call : calls)
            if (call.id == id) return call.name;
        return nullptr;
    };
    return domain == CUPTI_CB_DOMAIN_DRIVER_API    ? look(driver_calls)
           : domain == CUPTI_CB_DOMAIN_RUNTIME_API ? look(runtime_calls)
                                                   : nullptr;
}

}  // namespace barcuda::guest::cupti
