// SPDX-License-Identifier: Apache-2.0
// modules.h: code that is large, or much: modules of 100 MB, a thousand kernels, 32 KiB of parameters. The images are
// made by the driver's own linker (cuLink*) of PTX that is written here, so they fit whatever GPU there is and no file
// has to be carried. A large one is of one of two kinds, as programs have them: machine code with a variable of that
// size, which a GPU has to be given all of; and a fat binary with little code for this GPU and much for others. (The
// software GPU's linker gives PTX: its variable is large, its image is not.)
#pragma once
#include <cuda.h>
#include <elf.h>

#include <cstdint>
#include <string>
#include <vector>

#include "calls.h"

namespace code {

inline bool well(CUresult error, const char* call) {
    if (error != CUDA_SUCCESS) bench.failure(call, ("error " + std::to_string(static_cast<int>(error))).c_str());
    return error == CUDA_SUCCESS;
}
#define DO(call) code::well((call), #call)

// The driver's functions, as the runtime finds them: a program of the runtime is not linked to the driver.
struct Driver {
    template <class F> static void find(F& function, const char* name) {
        void* p = nullptr;
        cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSuccess;
        if (TRY(cudaGetDriverEntryPointByVersion(name, &p, 12000, cudaEnableDefault, &found)) && !p)
            bench.failure(name, "the driver does not have it");
        function = reinterpret_cast<F>(p);
    }
    decltype(&cuLinkCreate) link_create;
    decltype(&cuLinkAddData) link_add;
    decltype(&cuLinkComplete) link_complete;
    decltype(&cuLinkDestroy) link_destroy;
    decltype(&cuModuleLoadData) load;
    decltype(&cuModuleUnload) unload;
    decltype(&cuModuleGetFunction) function;
    decltype(&cuLaunchKernel) launch;
    Driver() {
        find(link_create, "cuLinkCreate");
        find(link_add, "cuLinkAddData");
        find(link_complete, "cuLinkComplete");
        find(link_destroy, "cuLinkDestroy");
        find(load, "cuModuleLoadData");
        find(unload, "cuModuleUnload");
        find(function, "cuModuleGetFunction");
        find(launch, "cuLaunchKernel");
    }
};

using Image = std::vector<char>;

inline const std::string opening = ".version 7.0\n.target sm_75\n.address_size 64\n";

inline Image linked(const Driver& driver, std::string ptx) {
    CUlinkState link;
    void* image = nullptr;
    std::size_t bytes = 0;
    Image copy;
    if (!DO(driver.link_create(0, nullptr, nullptr, &link))) return {};
    if (DO(driver.link_add(link, CU_JIT_INPUT_PTX, ptx.data(), ptx.size() + 1, "many_bench", 0, nullptr, nullptr)) &&
        DO(driver.link_complete(link, &image, &bytes)))
        copy.assign(static_cast<char*>(image), static_cast<char*>(image) + bytes);
    DO(driver.link_destroy(link));
    return copy;
}

// Bytes that no compressor and no search finds easy.
inline void fill(char* to, std::size_t bytes) {
    std::uint64_t state = 88172645463325252u;
    for (std::size_t i = 0; i + sizeof state <= bytes; i += sizeof state) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        memcpy(to + i, &state, sizeof state);
    }
}

// ---- large images --------------------------------------------------------------------------------------------------

struct Large {
    Image image;
    std::size_t bytes = 0;           // of its variable
    const char* variable = nullptr;  // in the image; null: it begins with 1, 2, 3
    int at(std::size_t place) const {
        return variable ? static_cast<unsigned char>(variable[place]) : place < 3 ? static_cast<int>(place) + 1 : 0;
    }
};

inline bool is_machine_code(const Image& image) {
    return image.size() > sizeof(Elf64_Ehdr) && memcmp(image.data(), ELFMAG, SELFMAG) == 0;
}

// A kernel, `look`, that tells a byte of a variable of so many bytes.
inline Large with_variable(const Driver& driver, std::size_t bytes) {
    const std::string variable = ".global .align 16 .b8 data[" + std::to_string(bytes) + "] = {1, 2, 3};\n";
    Large large{linked(driver, opening + variable + R"(
.visible .entry look(.param .u64 out, .param .u64 place)
{
    .reg .b64 %rd<5>;
    .reg .b32 %r<2>;
    ld.param.u64 %rd1, [out];
    cvta.to.global.u64 %rd1, %rd1;
    ld.param.u64 %rd2, [place];
    mov.u64 %rd3, data;
    add.u64 %rd4, %rd3, %rd2;
    ld.global.u8 %r1, [%rd4];
    st.global.u32 [%rd1], %r1;
    ret;
}
)"),
                bytes};
    Image& image = large.image;
    Elf64_Ehdr head;
    if (!is_machine_code(image)) return large;
    memcpy(&head, image.data(), sizeof head);
    for (unsigned i = 0; i < head.e_shnum; ++i) {
        Elf64_Shdr section;
        memcpy(&section, image.data() + head.e_shoff + std::size_t{i} * head.e_shentsize, sizeof section);
        if (section.sh_type != SHT_PROGBITS || !(section.sh_flags & SHF_WRITE) || section.sh_size != bytes) continue;
        fill(image.data() + section.sh_offset, bytes);
        large.variable = image.data() + section.sh_offset;
    }
    return large;
}

// The form of shm-device/cuda/fat_binary.h: a head, and entries for one architecture each.
struct ContainerHead {
    std::uint32_t magic = 0xba55ed50;
    std::uint16_t version = 1, head_bytes = 16;
    std::uint64_t entry_bytes = 0;
};
struct EntryHead {
    std::uint16_t kind, version = 0x101;  // 1: PTX, 2: machine code
    std::uint32_t head_bytes = 64;
    std::uint64_t bytes;
    std::uint32_t packed_bytes = 0, options_at = 0;
    std::uint16_t minor, major;  // of PTX, or of the form of machine code
    std::uint32_t architecture;
    std::uint32_t name[2] = {};
    std::uint64_t flags = 0x11, reserved = 0, plain_bytes = 0;  // 64 bits, of Linux; not compressed
};
static_assert(sizeof(ContainerHead) == 16 && sizeof(EntryHead) == 64);

inline void add_entry(Image& to, bool text, int architecture, const Image& code, std::size_t bytes) {
    EntryHead head{};
    head.kind = text ? 1 : 2;
    head.minor = text ? 0 : 8;
    head.major = text ? 7 : 1;
    head.architecture = static_cast<std::uint32_t>(architecture);
    head.bytes = (std::max(bytes, code.size()) + 7) / 8 * 8;
    const std::size_t at = to.size();
    to.resize(at + sizeof head + head.bytes);
    memcpy(to.data() + at, &head, sizeof head);
    memcpy(to.data() + at + sizeof head, code.data(), code.size());
    if (bytes > code.size()) fill(to.data() + at + sizeof head + code.size(), bytes - code.size());
}

// So many bytes of code for eight older GPUs, and a little for this one.
inline Large fat(const Driver& driver, std::size_t bytes) {
    const Large small = with_variable(driver, 1000);
    cudaDeviceProp device;
    if (small.image.empty() || !TRY(cudaGetDeviceProperties(&device, 0))) return {};
    Large large{Image(sizeof(ContainerHead)), small.bytes};
    const bool text = !is_machine_code(small.image);
    for (int architecture : {50, 52, 53, 60, 61, 62, 70, 72})
        add_entry(large.image, false, architecture, small.image, bytes / 8);
    const std::size_t own = large.image.size() + sizeof(EntryHead);
    add_entry(large.image, text, text ? 75 : device.major * 10 + device.minor, small.image, 0);
    if (small.variable) large.variable = large.image.data() + own + (small.variable - small.image.data());
    ContainerHead head;
    head.entry_bytes = large.image.size() - sizeof head;
    memcpy(large.image.data(), &head, sizeof head);
    return large;
}

struct Times {
    double load = 0, launch = 0, unload = 0;  // milliseconds
};

// Loads it, launches its kernel and looks whether that sees the variable's first, middle and last byte; and unloads it.
template <class Loaded> Times round(const Driver& driver, const Large& large, int* seen, Loaded loaded) {
    CUmodule module = nullptr;
    CUfunction look = nullptr;
    Times times;
    bool done = false;
    times.load = timed([&] { done = DO(driver.load(&module, large.image.data())); }) * 1e3;
    if (!done) return times;
    for (const std::uint64_t place : {large.bytes - 1, large.bytes / 2, std::size_t{0}}) {
        int byte = -1;
        void* parameters[] = {&seen, const_cast<std::uint64_t*>(&place)};
        const double seconds = timed([&] {
            if (!look) DO(driver.function(&look, module, "look"));
            if (look) DO(driver.launch(look, 1, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr));
            TRY(cudaDeviceSynchronize());
        });
        times.launch = std::max(times.launch, seconds * 1e3);  // the first one's
        TRY(cudaMemcpy(&byte, seen, sizeof byte, cudaMemcpyDeviceToHost));
        if (byte != large.at(place))
            bench.failure("a kernel that looks at its module's variable", "it saw another byte");
    }
    loaded();
    times.unload = timed([&] { DO(driver.unload(module)); }) * 1e3;
    return times;
}

// A first load alone: the region has to grow for it, and a driver may begin what it keeps. Then some more.
template <class Tell> void large_module(const Driver& driver, const std::string& name, const Large& large, Tell tell) {
    const long before = bench.failures;
    const int rounds = 5;
    std::vector<double> loads, launches, unloads;
    int* seen = nullptr;
    if (large.image.empty() || !TRY(cudaMalloc(&seen, sizeof *seen))) return bench.refused(name + "_load");
    TRY(cudaDeviceSynchronize());
    tell(name + " to load");
    const Times first = round(driver, large, seen, [&] { tell(name + " loaded"); });
    for (int i = 0; i < rounds && bench.failures == before; ++i) {
        const Times next = round(driver, large, seen, [] {});
        loads.push_back(next.load);
        launches.push_back(next.launch);
        unloads.push_back(next.unload);
    }
    tell(name + " unloaded");
    TRY(cudaFree(seen));
    if (bench.failures != before) return bench.refused(name + "_load");
    bench.value(name + "_load_first", "ms", first.load);
    bench.value(name + "_load", "ms", median(loads));
    bench.value(name + "_first_launch", "ms", median(launches));
    bench.value(name + "_unload", "ms", median(unloads));
}

// ---- many kernels --------------------------------------------------------------------------------------------------

inline void many_kernels(const Driver& driver, int number) {
    const std::string name = std::to_string(number) + "_kernels";
    const long before = bench.failures;
    std::string text = opening;
    for (int i = 0; i < number; ++i) text += ".visible .entry k" + std::to_string(i) + "()\n{\n    ret;\n}\n";
    const Image image = linked(driver, text);
    CUmodule module = nullptr;
    std::vector<CUfunction> kernels(static_cast<std::size_t>(number));
    const auto launch_all = [&] {
        for (CUfunction kernel : kernels) DO(driver.launch(kernel, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr));
        TRY(cudaDeviceSynchronize());
    };
    if (image.empty()) return bench.refused("load_" + name);
    bool done = false;
    const double load = timed([&] { done = DO(driver.load(&module, image.data())); });
    if (!done) return bench.refused("load_" + name);
    const double found = timed([&] {
        for (int i = 0; i < number; ++i)
            DO(driver.function(&kernels[static_cast<std::size_t>(i)], module, ("k" + std::to_string(i)).c_str()));
    });
    if (bench.failures != before) return bench.refused("find_" + name);
    const double first = timed(launch_all);
    bench.value("load_" + name, "ms", load * 1e3);
    bench.value("find_" + name, "us", found / number * 1e6);
    bench.value("launch_" + name + "_first", "us", first / number * 1e6);
    bench.row("launch_" + name + "_in_turn", "us", [&] { return timed(launch_all) / number * 1e6; });
    DO(driver.unload(module));
}

// ---- large parameters ----------------------------------------------------------------------------------------------

template <int bytes> struct Parameters { char all[bytes]; };
template <int bytes> static __global__ void takes(Parameters<bytes> p, char* out) {
    if (out) *out = p.all[bytes - 1];
}

template <int bytes> void launches_with(int burst) {
    Parameters<bytes> p{};
    char *out = nullptr, seen = 0;
    p.all[bytes - 1] = 7;
    if (!TRY(cudaMalloc(&out, 1))) return;
    takes<<<1, 1>>>(p, out);
    TRY(cudaMemcpy(&seen, out, 1, cudaMemcpyDeviceToHost));
    if (seen != 7) bench.failure("a kernel that takes many parameters", "it saw another byte");
    bench.row("launch_parameters_" + std::to_string(bytes), "us", [&] {
        return timed([&] {
                   for (int i = 0; i < burst; ++i) takes<<<1, 1>>>(p, static_cast<char*>(nullptr));
                   TRY(cudaGetLastError());
                   TRY(cudaDeviceSynchronize());
               }) /
               burst * 1e6;
    });
    TRY(cudaFree(out));
}

// ---- all of it -----------------------------------------------------------------------------------------------------

template <class Tell> void measure(int megabytes, Tell tell) {
    const std::size_t bytes = static_cast<std::size_t>(megabytes) << 20;
    const std::string name = "module_" + std::to_string(megabytes) + "M_";
    TRY(cudaFree(nullptr));
    const Driver driver;
    if (bench.failures) return bench.refused(name + "variable_load");
    large_module(driver, name + "variable", with_variable(driver, bytes), tell);
    large_module(driver, name + "fat", fat(driver, bytes), tell);
    many_kernels(driver, bench.quick ? 100 : 1000);
    launches_with<64>(bench.quick ? 20 : 500);
    launches_with<4000>(bench.quick ? 20 : 500);
    launches_with<32000>(bench.quick ? 20 : 500);
}

}  // namespace code
