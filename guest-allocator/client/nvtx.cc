// SPDX-License-Identifier: Apache-2.0
// nvtx.cc: writes the program's NVTX annotations into the trace. NVTX is a set of headers: at its first call each
// library that contains them opens the library that NVTX_INJECTION64_PATH names, and passes it a table of the places of
// its functions. With BARCUDA_TRACE this is our library; without it, NVTX finds nothing to open, and each of its calls
// costs a load and a branch.
//
// Ranges that are pushed and popped are slices of their thread, ranges that are started and ended are lanes of their
// own, marks are instants. A domain is the event's category ("nvtx:NAME"); NVTX's own categories are among the event's
// arguments.
#include <dlfcn.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NVTX_NO_IMPL
#include <nvtx3/nvToolsExt.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/trace.h"
#include "guest-allocator/client/mutex.h"

namespace barcuda::guest {
namespace {

constexpr std::size_t most_text = 1000;  // bytes of a message; trace::note takes four times as much

// Domains, registered strings and resources are asked for by their addresses as long as the program runs.
struct Domain {
    std::string name;
    std::map<std::uint32_t, std::string> categories;
};
struct NvtxRange {
    const Domain* domain;
    std::string members;
    std::int64_t start;
};

Mutex mutex;
struct NvtxState {
    Domain unnamed;
    std::map<std::string, std::unique_ptr<Domain>> domains;
    std::map<std::string, std::unique_ptr<std::string>> strings;
    std::map<nvtxRangeId_t, std::string> ranges;  // started, not ended: their members
    nvtxRangeId_t last_range = 0;
};
NvtxState& state() {
    static auto& all = *new NvtxState;  // never destroyed: programs end ranges in static destructors
    return all;
}
std::vector<NvtxRange>& pushed() {
    thread_local auto* const ranges = new std::vector<NvtxRange>;  // never destroyed, for the same reason
    return *ranges;
}

Domain* domain_of(nvtxDomainHandle_t handle) { return handle ? reinterpret_cast<Domain*>(handle) : &state().unnamed; }

// ---- text -----------------------------------------------------------------------------------------------------------

void put(std::string& to, char32_t c) {
    if (c < 0x80) to += static_cast<char>(c);
    else if (c < 0x800) to += {static_cast<char>(0xC0 | c >> 6), static_cast<char>(0x80 | (c & 63))};
    else if (c < 0x10000 && (c < 0xD800 || c > 0xDFFF))
        to += {static_cast<char>(0xE0 | c >> 12), static_cast<char>(0x80 | (c >> 6 & 63)),
               static_cast<char>(0x80 | (c & 63))};
    else if (c >= 0x10000 && c < 0x110000)
        to += {static_cast<char>(0xF0 | c >> 18), static_cast<char>(0x80 | (c >> 12 & 63)),
               static_cast<char>(0x80 | (c >> 6 & 63)), static_cast<char>(0x80 | (c & 63))};
    else to += '?';
}

std::string text_of(const char* s) { return s ? std::string(s, strnlen(s, most_text)) : ""; }
std::string text_of(const wchar_t* s) {
    std::string text;
    for (; s && *s && text.size() < most_text; ++s) put(text, static_cast<char32_t>(*s));
    return text;
}

std::string quoted(std::string_view s) { return std::string(json::Quoted<most_text>(s).view()); }

std::string message_of(const nvtxEventAttributes_t& a) {
    switch (a.messageType) {
        case NVTX_MESSAGE_TYPE_ASCII: return text_of(a.message.ascii);
        case NVTX_MESSAGE_TYPE_UNICODE: return text_of(a.message.unicode);
        case NVTX_MESSAGE_TYPE_REGISTERED:
            return a.message.registered ? *reinterpret_cast<const std::string*>(a.message.registered) : "";
        default: return {};
    }
}

// With a point, whatever the program's locale has there.
std::string number(double value) {
    static const locale_t plain = newlocale(LC_ALL_MASK, "C", nullptr);
    const locale_t before = uselocale(plain);
    std::string text = std::to_string(value);
    uselocale(before);
    return text;
}

std::string payload_of(const nvtxEventAttributes_t& a) {
    switch (a.payloadType) {
        case NVTX_PAYLOAD_TYPE_UNSIGNED_INT64: return std::to_string(a.payload.ullValue);
        case NVTX_PAYLOAD_TYPE_INT64: return std::to_string(a.payload.llValue);
        case NVTX_PAYLOAD_TYPE_UNSIGNED_INT32: return std::to_string(a.payload.uiValue);
        case NVTX_PAYLOAD_TYPE_INT32: return std::to_string(a.payload.iValue);
        case NVTX_PAYLOAD_TYPE_DOUBLE: return quoted(number(a.payload.dValue));  // JSON has no NaN
        case NVTX_PAYLOAD_TYPE_FLOAT: return quoted(number(static_cast<double>(a.payload.fValue)));
        default: return {};
    }
}

// The members of an event: its name, category and arguments.
std::string members_of(const Domain& domain, const std::string& message, const std::string& arguments = {}) {
    return "\"name\":" + quoted(message.empty() ? "(no message)" : message) +
           ",\"cat\":" + quoted(domain.name.empty() ? "nvtx" : "nvtx:" + domain.name) + ",\"args\":{" + arguments + "}";
}
std::string members_of(const Domain& domain, const nvtxEventAttributes_t* a) {
    if (!a) return members_of(domain, std::string());
    std::string arguments;
    if (a->category) {
        std::lock_guard lock(mutex);
        const auto named = domain.categories.find(a->category);
        arguments =
            "\"category\":" + (named != domain.categories.end() ? quoted(named->second) : std::to_string(a->category));
    }
    if (const std::string payload = payload_of(*a); !payload.empty())
        arguments += (arguments.empty() ? "\"payload\":" : ",\"payload\":") + payload;
    return members_of(domain, message_of(*a), arguments);
}

// ---- events ---------------------------------------------------------------------------------------------------------

void mark(const std::string& members) { trace::note('i', trace::clock(), 0, members + ",\"s\":\"t\""); }

int level(const Domain* domain) {  // how many ranges of the domain are open in this thread
    int open = 0;
    for (const NvtxRange& range : pushed()) open += range.domain == domain;
    return open;
}
int push(const Domain* domain, std::string members) {
    const int above = level(domain);
    pushed().push_back({domain, std::move(members), trace::clock()});
    return above;
}
int pop(const Domain* domain) {
    for (auto range = pushed().rbegin(); range != pushed().rend(); ++range) {
        if (range->domain != domain) continue;
        char duration[64];
        snprintf(duration, sizeof duration, ",\"dur\":%s", json::Microseconds(trace::clock() - range->start).text);
        trace::note('X', range->start, 0, range->members + duration);
        pushed().erase(std::next(range).base());
        return level(domain);
    }
    return NVTX_NO_PUSH_POP_TRACKING;
}

nvtxRangeId_t start(std::string members) {
    std::lock_guard lock(mutex);
    const nvtxRangeId_t id = ++state().last_range;
    members += ",\"id\":" + std::to_string(id);
    trace::note('b', trace::clock(), 0, members);
    state().ranges[id] = std::move(members);
    return id;
}
void end(nvtxRangeId_t id) {
    std::lock_guard lock(mutex);
    const auto range = state().ranges.extract(id);
    if (!range.empty()) trace::note('e', trace::clock(), 0, range.mapped());
}

void name_thread(std::uint32_t thread, const std::string& name) {
    trace::note('M', 0, thread, "\"name\":\"thread_name\",\"args\":{\"name\":" + quoted(name) + "}");
}
void name_category(nvtxDomainHandle_t domain, std::uint32_t category, std::string name) {
    std::lock_guard lock(mutex);
    domain_of(domain)->categories[category] = std::move(name);
}
nvtxDomainHandle_t domain(const std::string& name) {
    std::lock_guard lock(mutex);
    auto& known = state().domains[name];
    if (!known) known = std::make_unique<Domain>(Domain{name, {}});
    return reinterpret_cast<nvtxDomainHandle_t>(known.get());
}
nvtxStringHandle_t string(const std::string& text) {
    std::lock_guard lock(mutex);
    auto& known = state().strings[text];
    if (!known) known = std::make_unique<std::string>(text);
    return reinterpret_cast<nvtxStringHandle_t>(known.get());
}

// ---- NVTX's functions -----------------------------------------------------------------------------------------------

template <class C> void mark_text(const C* s) { mark(members_of(state().unnamed, text_of(s))); }
template <class C> nvtxRangeId_t start_text(const C* s) { return start(members_of(state().unnamed, text_of(s))); }
template <class C> int push_text(const C* s) { return push(&state().unnamed, members_of(state().unnamed, text_of(s))); }
template <class C> void name_thread_text(std::uint32_t thread, const C* s) { name_thread(thread, text_of(s)); }
template <class C> void name_category_text(std::uint32_t c, const C* s) { name_category(nullptr, c, text_of(s)); }
template <class C> void name_category_in(nvtxDomainHandle_t d, std::uint32_t c, const C* s) {
    name_category(d, c, text_of(s));
}
template <class C> nvtxDomainHandle_t domain_text(const C* s) { return domain(text_of(s)); }
template <class C> nvtxStringHandle_t string_text(nvtxDomainHandle_t, const C* s) { return string(text_of(s)); }

using Attributes = const nvtxEventAttributes_t*;
void mark_in(nvtxDomainHandle_t d, Attributes a) { mark(members_of(*domain_of(d), a)); }
nvtxRangeId_t start_in(nvtxDomainHandle_t d, Attributes a) { return start(members_of(*domain_of(d), a)); }
int push_in(nvtxDomainHandle_t d, Attributes a) { return push(domain_of(d), members_of(*domain_of(d), a)); }
int pop_in(nvtxDomainHandle_t d) { return pop(domain_of(d)); }
void end_in(nvtxDomainHandle_t, nvtxRangeId_t id) { end(id); }
void mark_attributes(Attributes a) { mark_in(nullptr, a); }
nvtxRangeId_t start_attributes(Attributes a) { return start_in(nullptr, a); }
int push_attributes(Attributes a) { return push_in(nullptr, a); }
int pop_unnamed() { return pop_in(nullptr); }

// Puts our functions into one of NVTX's tables: by number, each of the type that NVTX has for it.
class Table {
  public:
    Table(const NvtxExportTableCallbacks& callbacks, NvtxCallbackModule module) {
        if (!callbacks.GetModuleFunctionTable(module, &places_, &size_)) size_ = 0;
    }
    template <class F> void set(unsigned id, F function) {
        if (id < size_ && places_[id]) *places_[id] = reinterpret_cast<NvtxFunctionPointer>(function);
    }

  private:
    NvtxFunctionTable places_ = nullptr;
    unsigned size_ = 0;
};

void attach(const NvtxExportTableCallbacks& callbacks) {
    Table core(callbacks, NVTX_CB_MODULE_CORE), core2(callbacks, NVTX_CB_MODULE_CORE2);
#define CORE(name, ...) core.set(NVTX_CBID_CORE_##name, static_cast<nvtx##name##_impl_fntype>(__VA_ARGS__))
#define CORE2(name, ...) core2.set(NVTX_CBID_CORE2_##name, static_cast<nvtx##name##_impl_fntype>(__VA_ARGS__))
    CORE(MarkEx, mark_attributes);
    CORE(MarkA, mark_text<char>);
    CORE(MarkW, mark_text<wchar_t>);
    CORE(RangeStartEx, start_attributes);
    CORE(RangeStartA, start_text<char>);
    CORE(RangeStartW, start_text<wchar_t>);
    CORE(RangeEnd, end);
    CORE(RangePushEx, push_attributes);
    CORE(RangePushA, push_text<char>);
    CORE(RangePushW, push_text<wchar_t>);
    CORE(RangePop, pop_unnamed);
    CORE(NameCategoryA, name_category_text<char>);
    CORE(NameCategoryW, name_category_text<wchar_t>);
    CORE(NameOsThreadA, name_thread_text<char>);
    CORE(NameOsThreadW, name_thread_text<wchar_t>);
    CORE2(DomainMarkEx, mark_in);
    CORE2(DomainRangeStartEx, start_in);
    CORE2(DomainRangeEnd, end_in);
    CORE2(DomainRangePushEx, push_in);
    CORE2(DomainRangePop, pop_in);
    CORE2(DomainNameCategoryA, name_category_in<char>);
    CORE2(DomainNameCategoryW, name_category_in<wchar_t>);
    CORE2(DomainRegisterStringA, string_text<char>);
    CORE2(DomainRegisterStringW, string_text<wchar_t>);
    CORE2(DomainCreateA, domain_text<char>);
    CORE2(DomainCreateW, domain_text<wchar_t>);
#undef CORE
#undef CORE2
}

[[gnu::constructor]] void at_start() {
    const char* const trace = secure_getenv("BARCUDA_TRACE");
    Dl_info self;
    if (!trace || !*trace || !dladdr(reinterpret_cast<const void*>(&at_start), &self)) return;
    if (char* const path = realpath(self.dli_fname, nullptr)) {
        setenv("NVTX_INJECTION64_PATH", path, 0);  // 0: a tool of the user's comes first
        free(path);
    }
}

}  // namespace
}  // namespace barcuda::guest

// What NVTX looks for in the library that it opens. 0: it is to do without.
extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t table) {
    const auto* callbacks = static_cast<const NvtxExportTableCallbacks*>(table(NVTX_ETID_CALLBACKS));
    if (!barcuda::trace::on || !callbacks || callbacks->struct_size < sizeof *callbacks ||
        !callbacks->GetModuleFunctionTable)
        return 0;
    barcuda::guest::attach(*callbacks);
    return 1;
}
