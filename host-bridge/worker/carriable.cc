// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/worker/carriable.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "host-bridge/worker/array_bytes.h"
#include "host-bridge/worker/births/variables.h"
#include "host-bridge/worker/execute.h"

namespace barcuda {
namespace {

constexpr const char* no_cure = "there is none yet";

// Where code has its variables. A module's context is the one in which it was loaded; a library outlives that one, and
// has a copy of its variables in each context.
std::vector<std::uint32_t> contexts_of(Session& session, const Birth& code) {
    if (code.op != Op::load_library) return {code.context};
    std::vector<std::uint32_t> all;
    for (const Contexts::Living& l : session.contexts().living())
        if (!l.green) all.push_back(static_cast<std::uint32_t>(session.handles().id_of(l.context)));
    return all;
}

// Asks for a variable as the client would.
CUresult name_variable(Session& session, const Birth& code, std::uint32_t context, const std::string& name) {
    std::vector<std::byte> body(4 * sizeof(std::uint64_t) + padded(name.size() + 1)), room(64);
    Writer w(body), reply(room);
    std::uint64_t id = 0;  // of the module, or the library
    std::memcpy(&id, code.body.data(), sizeof id);
    for (const std::uint64_t word : {std::uint64_t{1}, std::uint64_t{1}, id, std::uint64_t{name.size() + 1}})
        w.put(word);
    w.put_bytes(name.c_str(), name.size() + 1);
    const Op op = code.op == Op::load_module ? Op::cuModuleGetGlobal_v2 : Op::cuLibraryGetGlobal;
    const Verdict verdict = perform(session, {static_cast<std::uint32_t>(op), context}, body, true, reply);
    return verdict.lie ? CUDA_ERROR_UNKNOWN : verdict.result;
}

std::uint64_t word_of(const Birth& birth, std::size_t place) {
    std::uint64_t word = 0;
    if (birth.body.size() >= (place + 1) * sizeof word)
        std::memcpy(&word, birth.body.data() + place * sizeof word, sizeof word);
    return word;
}

// Memory is read where it is mapped. Of a handle that is mapped nowhere, or in part, some would be lost.
bool has_unmapped_memory(Session& session) {
    Births& births = session.births();
    std::set<std::uint64_t> mapped, whole;  // addresses; ids of handles
    for (const Birth::Made& made : births.memory())
        if (made.thing.sort == Thing::Sort::mapping) mapped.insert(made.thing.name);
    const std::vector<Birth> all = births.needed();
    const auto size_of = [&](std::uint64_t handle) {
        const auto its = std::ranges::find_if(all, [&](const Birth& birth) {
            return birth.op == Op::cuMemCreate && !birth.made.empty() && birth.made.front().thing.name == handle;
        });
        return its == all.end() ? 0 : word_of(*its, 1);
    };
    for (const Birth& birth : all)  // cuMemMap: address, size, offset, handle
        if (birth.op == Op::cuMemMap && mapped.contains(word_of(birth, 0)) && word_of(birth, 2) == 0)
            if (const std::uint64_t handle = word_of(birth, 3); word_of(birth, 1) == size_of(handle))
                whole.insert(handle);
    return std::ranges::any_of(all, [&](const Birth& birth) {
        if (birth.op != Op::cuMemCreate || birth.made.empty()) return false;
        const std::uint64_t handle = birth.made.front().thing.name;
        return session.handles().contains(handle) && !whole.contains(handle);
    });
}

// Its contents are read and written where it is mapped. (VMs of which clients are carried have one GPU.)
bool has_mapping_without_access(Session& session) {
    const Driver& driver = session.driver();
    return std::ranges::any_of(session.births().memory(), [&](const Birth::Made& made) {
        if (made.thing.sort != Thing::Sort::mapping) return false;
        for (const CUdeviceptr at : {made.thing.name, made.thing.name + made.bytes - 1}) {
            unsigned long long access = 0;
            CUmemLocation device{};  // number 0
            device.type = CU_MEM_LOCATION_TYPE_DEVICE;
            if (!driver.cuMemGetAccess || driver.cuMemGetAccess(&access, &device, at) != CUDA_SUCCESS ||
                access != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
                return true;
        }
        return false;
    });
}

bool has_numbers(Births& births) {
    return std::ranges::any_of(births.needed(), [](const Birth& birth) {
        return std::ranges::any_of(birth.made,
                                   [](const Birth::Made& m) { return m.thing.sort == Thing::Sort::number; });
    });
}

std::vector<Hindrance> in_code(Session& session) {
    std::set<std::string> all;
    const std::vector<Birth> births = session.births().needed();
    for (const Birth& birth : births) {
        if (!birth.code || birth.op == Op::link_add) continue;
        const auto bytes = birth.code->map();
        const auto contents = bytes ? contents_of({bytes.get(), birth.code->bytes}) : std::nullopt;
        if (!contents) {
            all.insert("code that cannot be looked through, and may have variables");
            continue;
        }
        if (contents->heap) all.insert("code whose kernels allocate memory (malloc)");
        if (contents->launches) all.insert("code whose kernels launch kernels");
        // (A module that was unloaded has no variables.)
        const bool there = !birth.made.empty() && session.handles().contains(birth.made.front().thing.name);
        if (!there) continue;
        for (const std::uint32_t context : contexts_of(session, birth))
            for (const std::string& name : contents->variables)
                if (const CUresult r = name_variable(session, birth, context, name); r != CUDA_SUCCESS)
                    all.insert(fmt::format("a variable of its code whose address the driver does not give ({}): {}",
                                           session.driver().error_name(r), name));
    }
    std::vector<Hindrance> hindrances;
    for (const std::string& what : all) hindrances.push_back({what, no_cure});
    return hindrances;
}

}  // namespace

std::vector<Hindrance> hindrances(Session& session) {
    Births& births = session.births();
    std::vector<Hindrance> all;
    if (const CUresult fault = session.fences().lasting_error(); fault != CUDA_SUCCESS)
        all.push_back({"the GPU has failed under it: " + session.driver().error_name(fault), "start it again"});
    if (!births.on()) {
        all.push_back(births.lost()
                          ? Hindrance{births.lost(), "it runs on, and stays where it is"}
                          : Hindrance{"nothing was recorded of it", "start it again, with --device-memory blocks"});
        return all;
    }
    if (births.captures())
        all.push_back(
            {"a capture of a stream that has not ended (cudaStreamBeginCapture)", "try again when it has ended"});
    std::vector<std::pair<const Refusal*, std::string>> refused;
    for (const Op op : births.obstacles()) {
        const Refusal* const why = rule_of(op).why;
        const std::string row(op_names[static_cast<std::size_t>(op)]);
        const auto its = std::ranges::find(refused, why, &std::pair<const Refusal*, std::string>::first);
        if (its == refused.end()) refused.emplace_back(why, row);
        else its->second += ", " + row;
    }
    for (const auto& [why, rows] : refused)
        all.push_back({fmt::format("{}, by {}", why->what, rows), std::string(why->cure)});
    if (has_unmapped_memory(session))
        all.push_back({"physical memory (cuMemCreate) that is not mapped as a whole", "map or release it"});
    if (has_mapping_without_access(session))
        all.push_back({"memory that is mapped (cuMemMap), and that the GPU may not read and write",
                       "give access to it (cuMemSetAccess), or unmap it"});
    if (births.number_ended() && has_numbers(births))
        all.push_back({"a texture or a surface beside others that have ended: it may not get its number again",
                       "destroy it; what is made before any has ended is carried"});
    if (std::string array = unreadable_array(session); !array.empty())
        all.push_back({std::move(array), "free it; other arrays, and textures of linear memory, are carried"});
    return all.empty() ? in_code(session) : all;
}

}  // namespace barcuda
