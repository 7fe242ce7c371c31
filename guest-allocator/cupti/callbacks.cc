// SPDX-License-Identifier: Apache-2.0
// callbacks.cc: CUPTI's callback interface: one subscriber hears of calls of the driver and of the runtime, before and
// after (calls.cc). What happens to contexts, modules and graphs it may ask to hear of, and hears nothing.
#include <mutex>

#include "guest-allocator/client/mutex.h"
#include "guest-allocator/cupti/asked.h"
#include "guest-allocator/cupti/export.h"

using namespace barcuda::guest;
using namespace barcuda::guest::cupti;

namespace {

Mutex mutex;
char handle;  // of the one subscriber
const CUpti_SubscriberHandle the_subscriber = reinterpret_cast<CUpti_SubscriberHandle>(&handle);

bool is_of_calls(CUpti_CallbackDomain domain) {
    return domain == CUPTI_CB_DOMAIN_DRIVER_API || domain == CUPTI_CB_DOMAIN_RUNTIME_API;
}
// Domains of which there is nothing to hear.
bool is_silent(CUpti_CallbackDomain domain) {
    return domain == CUPTI_CB_DOMAIN_RESOURCE || domain == CUPTI_CB_DOMAIN_SYNCHRONIZE ||
           domain == CUPTI_CB_DOMAIN_NVTX || domain == CUPTI_CB_DOMAIN_STATE;
}
bool is_subscriber(CUpti_SubscriberHandle subscriber) {
    return subscriber == the_subscriber && asked.subscriber.load();
}

CUptiResult subscribe(CUpti_SubscriberHandle* subscriber, CUpti_CallbackFunc callback, void* data) {
    if (!subscriber || !callback) return CUPTI_ERROR_INVALID_PARAMETER;
    std::lock_guard lock(mutex);
    if (asked.subscriber.load()) return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
    asked.subscribers_data = data;
    asked.subscriber.store(callback, std::memory_order_release);
    *subscriber = the_subscriber;
    return CUPTI_SUCCESS;
}

void hear_all(CUpti_CallbackDomain domain, bool on) { asked.heard.set_all(domain, on); }

}  // namespace

CUPTI cuptiSubscribe(CUpti_SubscriberHandle* subscriber, CUpti_CallbackFunc callback, void* data) {
    return subscribe(subscriber, callback, data);
}
CUPTI cuptiSubscribe_v2(CUpti_SubscriberHandle* subscriber, CUpti_CallbackFunc callback, void* data,
                        CUpti_SubscriberParams*) {
    return subscribe(subscriber, callback, data);
}
CUPTI cuptiUnsubscribe(CUpti_SubscriberHandle subscriber) {
    std::lock_guard lock(mutex);
    if (!is_subscriber(subscriber)) return CUPTI_ERROR_INVALID_PARAMETER;
    hear_all(CUPTI_CB_DOMAIN_DRIVER_API, false);
    hear_all(CUPTI_CB_DOMAIN_RUNTIME_API, false);
    asked.subscriber = nullptr;
    look_at_calls();
    return CUPTI_SUCCESS;
}

CUPTI cuptiEnableCallback(std::uint32_t enable, CUpti_SubscriberHandle subscriber, CUpti_CallbackDomain domain,
                          CUpti_CallbackId id) {
    std::lock_guard lock(mutex);
    if (!is_subscriber(subscriber)) return CUPTI_ERROR_INVALID_PARAMETER;
    if (is_silent(domain)) return CUPTI_SUCCESS;
    if (!name_of(domain, id)) return CUPTI_ERROR_INVALID_PARAMETER;
    asked.heard.set(domain, id, enable);
    look_at_calls();
    return CUPTI_SUCCESS;
}
CUPTI cuptiEnableDomain(std::uint32_t enable, CUpti_SubscriberHandle subscriber, CUpti_CallbackDomain domain) {
    std::lock_guard lock(mutex);
    if (!is_subscriber(subscriber)) return CUPTI_ERROR_INVALID_PARAMETER;
    if (is_silent(domain)) return CUPTI_SUCCESS;
    if (!is_of_calls(domain)) return CUPTI_ERROR_INVALID_PARAMETER;
    hear_all(domain, enable);
    look_at_calls();
    return CUPTI_SUCCESS;
}
CUPTI cuptiEnableAllDomains(std::uint32_t enable, CUpti_SubscriberHandle subscriber) {
    std::lock_guard lock(mutex);
    if (!is_subscriber(subscriber)) return CUPTI_ERROR_INVALID_PARAMETER;
    hear_all(CUPTI_CB_DOMAIN_DRIVER_API, enable);
    hear_all(CUPTI_CB_DOMAIN_RUNTIME_API, enable);
    look_at_calls();
    return CUPTI_SUCCESS;
}
CUPTI cuptiGetCallbackState(std::uint32_t* enable, CUpti_SubscriberHandle subscriber, CUpti_CallbackDomain domain,
                            CUpti_CallbackId id) {
    std::lock_guard lock(mutex);
    if (!enable || !is_subscriber(subscriber) || !is_of_calls(domain) || !name_of(domain, id))
        return CUPTI_ERROR_INVALID_PARAMETER;
    *enable = asked.heard.has(domain, id);
    return CUPTI_SUCCESS;
}
CUPTI cuptiSupportedDomains(std::size_t* count, CUpti_DomainTable* domains) {
    static CUpti_CallbackDomain all[] = {CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_CB_DOMAIN_RUNTIME_API};
    if (!count || !domains) return CUPTI_ERROR_INVALID_PARAMETER;
    *count = std::size(all);
    *domains = all;
    return CUPTI_SUCCESS;
}
CUPTI cuptiGetCallbackName(CUpti_CallbackDomain domain, std::uint32_t id, const char** name) {
    const char* const found = name_of(domain, id);
    if (!name || !found) return CUPTI_ERROR_INVALID_PARAMETER;
    *name = found;
    return CUPTI_SUCCESS;
}
