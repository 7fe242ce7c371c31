// SPDX-License-Identifier: Apache-2.0
// mistake_model.cu: a random program that makes mistakes with memory on purpose, and knows what it must hear. Memory of
// every kind is allocated and freed; code is loaded and unloaded, contexts are made and destroyed, other streams
// capture. In between, right and wrong calls name memory that lives, its inside, its end, and memory that has gone.
// What a call answers depends on what the memory is alone: it stands in a table of native answers, on the standard
// input, whose questions have the names of tests/e2e/answers. What the table does not have is not asked.
//
//   mistake_model [seconds=N | steps=N] [seed=N] [programs=N] [contexts=N] [says=1] < TABLE
//
// Several programs run one after the other in one process, each with the next seed. A program makes contexts beside its
// own if its seed is a multiple of `contexts`: a GPU's driver makes one at a time, for all processes.
#include <cuda.h>
#include <math.h>
#include <string.h>
#include <sys/mman.h>

#include <functional>
#include <iostream>
#include <map>
#include <string_view>

#include "../answers/fills.h"
#include "model.h"

namespace {

constexpr size_t granule = 2 << 20;
std::map<std::string, int> table;
std::map<std::string, unsigned> asked;  // by the first part of a question
uint64_t wrong = 0, right = 0;
double says = 0;  // each thing that is done
double programs = 1, contexts = 1;
template <class... T> void say(const char* format, T... values) {
    if (says == 0) return;
    printf("%lu ", step);
    printf(format, values...);
    putchar('\n');
}

CUdeviceptr D(const void* p) { return reinterpret_cast<CUdeviceptr>(p); }

void read_table() {
    std::string line;
    while (std::getline(std::cin, line)) {
        const size_t tab = line.find('\t');
        if (tab != std::string::npos) table[line.substr(0, tab)] = atoi(line.c_str() + tab + 1);
    }
}

__device__ int symbol[1024];
constexpr char code[] =
    ".version 6.4\n.target sm_50\n.address_size 64\n.visible .global .align 8 .b8 kept[4096];\n"
    ".visible .entry k()\n{\n ret;\n}\n";

// Memory, or the place where it was. `kind` is as in the table's questions.
struct Place {
    std::string kind;
    CUdeviceptr at = 0;
    size_t bytes = 0;
    bool lives = true;
    CUmodule module = nullptr;
    std::string now() const {
        if (lives) return kind == "variable" ? "symbol" : kind;
        return kind == "vmm" ? "vmm_unmapped" : kind == "variable" ? "dev_freed" : kind + "_freed";
    }
};

class Lane {
  public:
    explicit Lane(int number) : dice_(dice_of(number)) {
        for (cudaStream_t& s : streams_) CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
        CHECK(cudaStreamCreateWithFlags(&capturing_, cudaStreamNonBlocking));
        host_ = map(most_bytes);
        void* p = nullptr;
        CHECK(cudaMalloc(&p, most_bytes));
        beside_ = D(p);
        CHECK(cudaGetSymbolAddress(&p, symbol));
        places_.push_back({"symbol", D(p), sizeof symbol});
        places_.push_back({"heap", D(malloc(room)), room});
        places_.push_back({"pages", D(map(room)), room});
        places_.push_back({"null", 0, 0});
    }

    void act() {
        switch (dice_.below(16)) {
            case 0: return make();
            case 1: return end();
            case 2: return disturb();
            case 3: return look();
            case 4: return wait();
            case 5:
            case 6: return copy();
            case 7:
            case 8: return words();
            case 9: return copy_all();
            default: return fill();
        }
    }
    // Nothing of it is left: another program may follow.
    void stop() {
        if (captures_) capture();
        wait();
        for (const Place& place : places_)
            if (place.lives) release(place);
        CHECK(cudaFree(reinterpret_cast<void*>(beside_)));
        for (const auto& [pages, bytes] : pages_) munmap(pages, bytes);
        for (cudaStream_t s : streams_) CHECK(cudaStreamDestroy(s));
        CHECK(cudaStreamDestroy(capturing_));
    }

  private:
    static constexpr size_t room = 65536, most_bytes = 512 << 10, most_places = 40;

    void* map(size_t bytes) {  // and nothing behind it
        void* const p = mmap(nullptr, bytes + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (p == MAP_FAILED || mprotect(static_cast<char*>(p) + bytes, 4096, PROT_NONE)) die("no pages");
        pages_.push_back({p, bytes + 4096});
        return p;
    }
    static void release(const Place& place) {
        void* const p = reinterpret_cast<void*>(place.at);
        if (place.kind == "dev" || place.kind == "pool" || place.kind == "managed") CHECK(cudaFree(p));
        else if (place.kind == "pinned") CHECK(cudaFreeHost(p));
        else if (place.kind == "registered") CHECK(cudaHostUnregister(p));
        else if (place.kind == "heap") free(p);
        else if (place.module && cuModuleUnload(place.module)) die("a module cannot be unloaded");
        else if (place.kind == "vmm") unmap(place);
    }
    static void unmap(const Place& place) {
        for (size_t done = 0; done < place.bytes; done += granule)
            if (cuMemUnmap(place.at + done, granule)) die("a mapping cannot be unmapped");
    }
    Place& any() { return places_[dice_.below(places_.size())]; }
    cudaStream_t stream() { return streams_[dice_.below(std::size(streams_))]; }
    template <class F> const F& one(const std::vector<F>& forms) { return forms[dice_.below(forms.size())]; }

    // What `call` says must be the table's answer to the question.
    template <class Call> int ask(const std::string& question, Call call) {
        const auto known = table.find(question);
        if (known == table.end()) return -1;
        const int heard = call();
        say("%s: %d", question.c_str(), heard);
        ++asked[question.substr(0, question.find('/'))];
        ++(known->second ? wrong : right);
        if (heard != known->second)
            die("%s: %d, natively %d%s", question.c_str(), heard, known->second,
                captures_ ? " (a stream captures)" : "");
        return heard;
    }

    // For all streams but one, by default one that is not used. (For the whole context nothing may wait while a stream
    // captures.)
    void wait(CUstream but = CU_STREAM_PER_THREAD) {
        std::vector<cudaStream_t> all(std::begin(streams_), std::end(streams_));
        all.push_back(nullptr);
        for (const CUstream s : all)
            if (const CUresult late = s == but ? CUDA_SUCCESS : cuStreamSynchronize(s))
                die("a call has an error later: %d", int(late));
    }

    // ---- memory is allocated and freed
    void add(const char* kind, CUdeviceptr at, size_t bytes, CUmodule module = nullptr) {
        // What was there is there no more.
        std::erase_if(places_, [&](const Place& p) { return !p.lives && p.at < at + bytes && at < p.at + p.bytes; });
        places_.push_back({kind, at, bytes, true, module});
        say("%s of %zu bytes at %llx", kind, bytes, at);
    }
    void make() {
        if (places_.size() >= most_places) {  // the oldest that has gone is forgotten
            const auto gone = std::find_if(places_.begin(), places_.end(), [](const Place& p) { return !p.lives; });
            if (gone == places_.end()) return end();
            places_.erase(gone);
        }
        const size_t bytes = room << dice_.below(4);
        void* p = nullptr;
        forget_gone("pinned");  // the device may find other memory of the host there
        switch (dice_.below(7)) {
            case 0: CHECK(cudaMalloc(&p, bytes)); return add("dev", D(p), bytes);
            case 1:
                CHECK(cudaMallocAsync(&p, bytes, stream()));
                wait();
                return add("pool", D(p), bytes);
            case 2: CHECK(cudaHostAlloc(&p, bytes, cudaHostAllocDefault)); return add("pinned", D(p), bytes);
            case 3:
                p = map(bytes);
                CHECK(cudaHostRegister(p, bytes, cudaHostRegisterDefault));
                return add("registered", D(p), bytes);
            case 4: CHECK(cudaMallocManaged(&p, bytes)); return add("managed", D(p), bytes);
            case 5: return make_mapping();
            default: return make_variable();
        }
    }
    void make_mapping() {
        CUmemAllocationProp properties{};
        properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
        properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
        const CUmemAccessDesc access{properties.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
        CUdeviceptr at = 0;
        CUmemGenericAllocationHandle handle;
        const size_t bytes = granule << dice_.below(2);  // one mapping, or two; and nothing behind them
        if (cuMemAddressReserve(&at, bytes + granule, 0, 0, 0)) die("no addresses");
        for (size_t done = 0; done < bytes; done += granule) {
            if (cuMemCreate(&handle, granule, &properties, 0)) die("no physical memory");
            if (cuMemMap(at + done, granule, 0, handle, 0) || cuMemRelease(handle)) die("no mapping");
        }
        if (cuMemSetAccess(at, bytes, &access, 1)) die("no access");
        add("vmm", at, bytes);
    }
    void make_variable() {
        forget_gone_device_memory();
        CUmodule module = nullptr;
        CUdeviceptr at = 0;
        size_t bytes = 0;
        if (cuModuleLoadData(&module, code) || cuModuleGetGlobal(&at, &bytes, module, "kept")) die("no module");
        add("variable", at, bytes, module);
    }
    void forget_gone(const char* kind) {
        std::erase_if(places_, [=](const Place& p) { return !p.lives && p.kind == kind; });
    }
    // What the driver needs for itself may come to lie there.
    void forget_gone_device_memory() {
        std::erase_if(places_, [](const Place& p) { return !p.lives && p.kind != "pinned" && p.kind != "registered"; });
    }

    // By a function that may be the wrong one.
    void end() {
        struct Form {
            const char* name;
            std::function<int(CUdeviceptr)> call;
        };
        const CUstream s = stream();
        const std::vector<Form> forms = {
            {"cuMemFree", [](CUdeviceptr p) { return cuMemFree(p); }},
            {"cuMemFreeHost", [](CUdeviceptr p) { return cuMemFreeHost(reinterpret_cast<void*>(p)); }},
            {"cuMemFreeAsync", [s](CUdeviceptr p) { return cuMemFreeAsync(p, s); }},
            {"cuMemHostUnregister", [](CUdeviceptr p) { return cuMemHostUnregister(reinterpret_cast<void*>(p)); }},
            {"cuIpcCloseMemHandle", [](CUdeviceptr p) { return cuIpcCloseMemHandle(p); }}};
        Place& place = any();
        if (!place.bytes) return;
        if (captures_ && place.module) return;  // the worker unloads code later
        if (place.lives && place.kind == "vmm") {
            wait();  // cuMemUnmap does not wait for what the GPU still does there
            unmap(place);
            place.lives = false;
            say("unmapped %llx", place.at);
            return;
        }
        if (place.lives && place.module && dice_.one_in(2)) {
            wait();
            if (cuModuleUnload(place.module)) die("a module cannot be unloaded");
            place.lives = false;
            say("unloaded %llx", place.at);
            return;
        }
        const Form& form = one(forms);
        // These frees do not wait for what other streams do there.
        const bool in_order = form.name == std::string_view("cuMemFreeAsync");
        if (place.lives && (in_order || place.kind == "pool")) wait(in_order ? s : CU_STREAM_PER_THREAD);
        const bool inside = place.lives && !place.module && dice_.one_in(3);
        const std::string kind = place.now() + (inside ? "_mid" : "");
        const CUdeviceptr at = place.at + (inside ? 4096 : 0);
        if (ask("freeing/" + kind + "/" + form.name, [&] { return form.call(at); }) != 0) return;
        wait();
        place.lives = false;
        say("freed %llx", at);
    }

    // ---- what must change nothing
    void disturb() {
        switch (dice_.below(8)) {
            case 0: {
                if (fmod(options.seed, contexts) != 0) return look();
                if (captures_) capture();
                forget_gone_device_memory();
                CUcontext before = nullptr, other = nullptr;
                cuCtxGetCurrent(&before);
                say("another context");
                if (cuCtxCreate(&other, nullptr, 0, 0) || cuCtxDestroy(other) || cuCtxSetCurrent(before))
                    die("no second context");
                return;
            }
            case 1: {
                forget_gone_device_memory();
                CUmodule module = nullptr;
                if (cuModuleLoadData(&module, code) || cuModuleUnload(module)) die("no module");
                return;
            }
            default: return capture();
        }
    }
    // Another thread's, which forbids this one nothing.
    void capture() {
        if (captures_) {
            CUgraph graph = nullptr;
            if (cuStreamEndCapture(capturing_, &graph) || cuGraphDestroy(graph)) die("a capture has been spoiled");
        } else {
            CUcontext context = nullptr;
            cuCtxGetCurrent(&context);
            std::thread([&] {
                cuCtxSetCurrent(context);
                if (cuStreamBeginCapture(capturing_, CU_STREAM_CAPTURE_MODE_RELAXED)) die("no capture");
            }).join();
        }
        captures_ = !captures_;
        say(captures_ ? "a capture begins" : "a capture ends");
    }
    void look() {
        const Place& place = any();
        unsigned type = 0;
        size_t size = 0;
        cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, place.at);
        cuMemGetAddressRange(nullptr, &size, place.at);
    }

    // ---- calls that name memory
    struct Chosen {
        std::string kind;
        CUdeviceptr at;
        size_t left;
    };
    Chosen choose() {
        const Place& place = any();
        const bool inside = place.lives && place.bytes > 8192 && place.kind != "symbol" && dice_.one_in(3);
        Chosen chosen{place.now(), place.at, place.bytes};
        if (!inside || !table.count("filling/" + chosen.kind + "_mid/D8/few")) return chosen;
        return {chosen.kind + "_mid", place.at + 4096, place.bytes - 4096};
    }

    void fill() {
        const std::vector<Fill> fills = driver_fills(stream());
        const Fill& form = one(fills);
        const Chosen c = choose();
        const size_t fits = c.left / form.unit;
        const std::string question = "filling/" + c.kind + "/" + form.name;
        switch (dice_.below(6)) {
            case 0: ask(question + "/none", [&] { return form.call(c.at, 0); }); return;
            case 1: ask(question + "/fits", [&] { return form.call(c.at, fits); }); return;
            case 2: ask(question + "/past", [&] { return form.call(c.at, fits + 1 + dice_.below(16)); }); return;
            case 3: ask(question + "/far", [&] { return form.call(c.at, size_t{1} << 36); }); return;
            case 4:
                if (form.unit > 1) ask(question + "/odd", [&] { return form.call(c.at + 1, 8); });
                return;
            default: ask(question + "/few", [&] { return form.call(c.at, 8); }); return;
        }
    }
    // The device's side is the place, the other one is right.
    struct Copy {
        const char* name;
        bool to;
        std::function<int(CUdeviceptr, size_t)> call;
    };
    std::vector<Copy> copies() {
        const CUstream s = stream();
        return {
            {"HtoD", true, [this](CUdeviceptr p, size_t n) { return cuMemcpyHtoD(p, host_, n); }},
            {"DtoH", false, [this](CUdeviceptr p, size_t n) { return cuMemcpyDtoH(host_, p, n); }},
            {"DtoD", true, [this](CUdeviceptr p, size_t n) { return cuMemcpyDtoD(p, beside_, n); }},
            {"DtoD", false, [this](CUdeviceptr p, size_t n) { return cuMemcpyDtoD(beside_, p, n); }},
            {"HtoDAsync", true, [this, s](CUdeviceptr p, size_t n) { return cuMemcpyHtoDAsync(p, host_, n, s); }},
            {"DtoHAsync", false, [this, s](CUdeviceptr p, size_t n) { return cuMemcpyDtoHAsync(host_, p, n, s); }},
            {"DtoDAsync", true, [this, s](CUdeviceptr p, size_t n) { return cuMemcpyDtoDAsync(p, beside_, n, s); }},
            {"DtoDAsync", false, [this, s](CUdeviceptr p, size_t n) { return cuMemcpyDtoDAsync(beside_, p, n, s); }}};
    }
    void copy() {
        const Copy form = one(copies());
        const Chosen c = choose();
        const std::string direction = std::string("/") + form.name + (form.to ? "/to" : "/from");
        const std::string question = "driver_copies/" + c.kind + direction;
        switch (dice_.below(3)) {
            case 0: ask(question + "_none", [&] { return form.call(c.at, 0); }); return;
            case 1:
                if (c.left < most_bytes) {  // (of whole allocations the table has no copy that is longer)
                    const std::string inside = "driver_copies/" + c.kind + "_mid" + direction + "_past";
                    ask(table.count(inside) ? inside : question + "_past", [&] { return form.call(c.at, c.left + 1); });
                }
                return;
            default: ask(question, [&] { return form.call(c.at, 16); }); return;
        }
    }
    // All of it, and over the seam of mappings: what holds for a few bytes holds for all.
    void copy_all() {
        const Copy form = one(copies());
        const Chosen c = choose();
        const std::string question = "driver_copies/" + c.kind + "/" + form.name + (form.to ? "/to" : "/from");
        if (!c.left || (c.left > most_bytes && c.left <= granule)) return;
        if (c.kind == "pinned_freed") return;  // a buffer of the copy may lie there
        const bool seam = c.left > granule;
        ask(question,
            [&] { return form.call(seam ? c.at + granule - most_bytes / 2 : c.at, seam ? most_bytes : c.left); });
    }
    void words() {
        struct Form {
            const char* name;
            std::function<int(CUstream, CUdeviceptr)> call;
        };
        static const std::vector<Form> forms = {
            {"write32", [](CUstream s, CUdeviceptr p) { return cuStreamWriteValue32(s, p, 0, 0); }},
            {"write64", [](CUstream s, CUdeviceptr p) { return cuStreamWriteValue64(s, p, 0, 0); }},
            {"wait32",
             [](CUstream s, CUdeviceptr p) {
                 const int r = cuStreamWriteValue32(s, p, 0, 0);
                 return r ? r : cuStreamWaitValue32(s, p, 0, CU_STREAM_WAIT_VALUE_GEQ);
             }},
            {"wait64", [](CUstream s, CUdeviceptr p) {
                 const int r = cuStreamWriteValue64(s, p, 0, 0);
                 return r ? r : cuStreamWaitValue64(s, p, 0, CU_STREAM_WAIT_VALUE_GEQ);
             }}};
        const Form& form = one(forms);
        const Chosen c = choose();
        const unsigned odds[] = {0, 1, 2, 4};
        const unsigned odd = odds[dice_.below(4)];
        const CUstream s = stream();
        ask("stream_memory/" + c.kind + "/at_" + std::to_string(odd) + "/" + form.name,
            [&] { return form.call(s, c.at + odd); });
    }

    Random dice_;
    cudaStream_t streams_[3], capturing_;
    bool captures_ = false;
    void* host_;
    CUdeviceptr beside_;
    std::vector<Place> places_;
    std::vector<std::pair<void*, size_t>> pages_;
};

}  // namespace

int main(int argc, char** argv) {
    parse(argc, argv, 1, {{"says", &says}, {"programs", &programs}, {"contexts", &contexts}});
    read_table();
    CHECK(cudaFree(nullptr));
    const double first = options.seed;
    for (; options.seed < first + programs; ++options.seed) {
        Lane program(0);
        ::act(program);
        program.stop();
    }
    printf("%.0f programs from seed %.0f on: %lu calls were right, %lu wrong:", programs, first, right, wrong);
    for (const auto& [group, times] : asked) printf(" %s %u", group.c_str(), times);
    printf("\nPASSED\n");
    return 0;
}
