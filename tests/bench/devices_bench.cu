// SPDX-License-Identifier: Apache-2.0
// devices_bench.cu: several devices in one program (tests/bench/devices.py). What each pair copies, and how soon; what
// all of them copy from the host's memory, and to it, at the same time; and a program that works on all that it sees,
// beside others. Each copy's bytes are looked at by the device that they went to.
#include <atomic>
#include <thread>

#include "calls.h"

namespace {

// ---- what they share -----------------------------------------------------------------------------------------------

__global__ void fill(unsigned* words, std::size_t count, unsigned seed) {
    for (std::size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += std::size_t{gridDim.x} * blockDim.x)
        words[i] = static_cast<unsigned>(i) * 2654435761u + seed;
}
__global__ void look(const unsigned* words, std::size_t count, unsigned seed, unsigned* wrong) {
    for (std::size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += std::size_t{gridDim.x} * blockDim.x)
        if (words[i] != static_cast<unsigned>(i) * 2654435761u + seed) atomicAdd(wrong, 1u);
}

int devices = 0;
double wrong_words = 0;

// One device: two blocks of memory, a stream.
struct Device {
    int number = 0;
    std::size_t words = 0;
    unsigned *from = nullptr, *to = nullptr, *wrong = nullptr;
    cudaStream_t stream = nullptr;

    bool use() const { return TRY(cudaSetDevice(number)); }
    bool make(int its_number, std::size_t bytes) {
        number = its_number, words = bytes / sizeof(unsigned);
        return use() && TRY(cudaMalloc(&from, bytes)) && TRY(cudaMalloc(&to, bytes)) &&
               TRY(cudaMalloc(&wrong, sizeof *wrong)) &&
               TRY(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking)) && TRY(cudaMemset(to, 0, bytes)) && set();
    }
    bool set() const {  // each device has numbers of its own
        fill<<<blocks(), 256, 0, stream>>>(from, words, static_cast<unsigned>(number));
        return TRY(cudaGetLastError()) && TRY(cudaStreamSynchronize(stream));
    }
    // How many words are not those that `whose` has.
    unsigned not_from(int whose, const unsigned* block) const {
        unsigned count = 1;
        use();
        TRY(cudaMemsetAsync(wrong, 0, sizeof *wrong, stream));
        look<<<blocks(), 256, 0, stream>>>(block, words, static_cast<unsigned>(whose), wrong);
        TRY(cudaGetLastError()), TRY(cudaStreamSynchronize(stream));
        TRY(cudaMemcpy(&count, wrong, sizeof count, cudaMemcpyDeviceToHost));
        return count;
    }
    unsigned blocks() const { return static_cast<unsigned>(std::min<std::size_t>((words + 255) / 256, 256)); }
    void free() {
        use();
        TRY(cudaFree(from)), TRY(cudaFree(to)), TRY(cudaFree(wrong)), TRY(cudaStreamDestroy(stream));
    }
};

bool make(std::vector<Device>& all, std::size_t bytes) {
    all.resize(static_cast<std::size_t>(devices));
    for (int i = 0; i < devices; ++i)
        if (!all[static_cast<std::size_t>(i)].make(i, bytes)) return false;
    return true;
}

// ---- pairs ---------------------------------------------------------------------------------------------------------

// A copy that is given to the stream of the device that sends; few of them are enough for a bandwidth, as it is the
// link's.
void pair(const Device& a, const Device& b, const std::string& how) {
    const std::string name = how + '_' + std::to_string(a.number) + '_' + std::to_string(b.number);
    const std::size_t bytes = a.words * sizeof(unsigned);
    const int copies = bench.quick ? 1 : 4, small = bench.quick ? 20 : 200;
    const auto go = [&](int times, std::size_t length) {
        for (int i = 0; i < times; ++i)
            if (!TRY(cudaMemcpyPeerAsync(b.to, b.number, a.from, a.number, length, a.stream))) return;
        drain(a.stream);
    };
    b.use(), TRY(cudaMemset(b.to, 0, bytes)), TRY(cudaDeviceSynchronize());
    a.use();
    bench.row("peer_bandwidth" + name, "GB/s",
              [&] { return static_cast<double>(bytes) * copies / timed([&] { go(copies, bytes); }) / 1e9; });
    if (bench.wants("peer_bandwidth" + name)) wrong_words += b.not_from(a.number, b.to);
    a.use();
    bench.row("peer_latency" + name, "us", [&] { return timed([&] { go(small, 16); }) / small * 1e6; });
}

void pairs() {
    std::vector<Device> all;
    if (!make(all, bench.quick ? 1 << 20 : 64 << 20)) return bench.refused("peer_bandwidth");
    bench.budget = std::min(bench.budget, 0.02);  // there are 56 pairs of 8 devices, with four figures each
    bench.enough = 15;
    for (const Device& a : all)
        for (const Device& b : all) pair(a, b, "");
    for (const Device& a : all)
        for (const Device& b : all) {
            int can = 0;
            if (&a == &b || !TRY(cudaDeviceCanAccessPeer(&can, a.number, b.number)) || !can) continue;
            const bool back = TRY(cudaDeviceCanAccessPeer(&can, b.number, a.number)) && can;
            a.use(), TRY(cudaDeviceEnablePeerAccess(b.number, 0));
            if (back) b.use(), TRY(cudaDeviceEnablePeerAccess(a.number, 0));
            pair(a, b, "_access");
            wrong_words += a.not_from(b.number, b.from);  // a kernel reads the other's memory where it is
            a.use(), TRY(cudaDeviceDisablePeerAccess(b.number));
            if (back) b.use(), TRY(cudaDeviceDisablePeerAccess(a.number));
        }
    for (Device& d : all) d.free();
    bench.value("peer_wrong_words", "words", wrong_words);
}

// ---- all at the same time ------------------------------------------------------------------------------------------

// GB/s of the first `some` devices together: a thread for each, which has begun before the time does. Threads tell of
// an error by what they return: Bench::failure is for one thread.
double together(const std::vector<Device>& all, const std::vector<char*>& host, int some, bool to_device) {
    std::atomic<int> ready{0}, failed{0};
    std::atomic<bool> go{false};
    std::vector<std::thread> threads;
    const std::size_t bytes = all[0].words * sizeof(unsigned);
    for (std::size_t i = 0; i < static_cast<std::size_t>(some); ++i)
        threads.emplace_back([&, i] {
            bool well = cudaSetDevice(all[i].number) == cudaSuccess;
            ++ready;
            while (!go) std::this_thread::yield();
            well = well && (to_device ? cudaMemcpy(all[i].to, host[i], bytes, cudaMemcpyHostToDevice)
                                      : cudaMemcpy(host[i], all[i].from, bytes, cudaMemcpyDeviceToHost)) == cudaSuccess;
            failed += !(well && cudaDeviceSynchronize() == cudaSuccess);
        });
    while (ready < some) std::this_thread::yield();
    const double seconds = timed([&] {
        go = true;
        for (std::thread& one : threads) one.join();
    });
    if (failed) bench.failure("a thread", "its copy failed");
    return static_cast<double>(bytes) * some / seconds / 1e9;
}

// The device's numbers to the host, and from there back into its other block.
void sums_of(const std::vector<Device>& all, const std::string& memory, const std::vector<char*>& host, double& wrong) {
    for (int some = 1;; some = std::min(2 * some, devices)) {
        const std::string name = memory + '_' + std::to_string(some) + (some == 1 ? "_device" : "_devices");
        for (const Device& d : all)
            d.use(), TRY(cudaMemset(d.to, 0, d.words * sizeof(unsigned))), TRY(cudaDeviceSynchronize());
        bench.row("sum_d2h_" + name, "GB/s", [&] { return together(all, host, some, false); });
        bench.row("sum_h2d_" + name, "GB/s", [&] { return together(all, host, some, true); });
        if (bench.wants("sum_d2h_" + name) && bench.wants("sum_h2d_" + name))
            for (int i = 0; i < some; ++i)
                wrong += all[static_cast<std::size_t>(i)].not_from(i, all[static_cast<std::size_t>(i)].to);
        if (some == devices) return;
    }
}

void sums() {
    const std::size_t bytes = bench.quick ? 4 << 20 : 256 << 20;
    std::vector<Device> all;
    std::vector<char*> host(static_cast<std::size_t>(devices));
    double wrong = 0;
    if (!make(all, bytes)) return bench.refused("sum_h2d");
    for (char*& block : host) {
        block = static_cast<char*>(malloc(bytes));
        memset(block, 1, bytes);
    }
    sums_of(all, "malloc", host, wrong);
    for (char*& block : host) {
        free(block), block = nullptr;
        if (!TRY(cudaHostAlloc(&block, bytes, cudaHostAllocPortable))) return bench.refused("sum_h2d_pinned");
    }
    sums_of(all, "pinned", host, wrong);
    for (char* block : host) TRY(cudaFreeHost(block));
    for (Device& d : all) d.free();
    bench.value("sum_wrong_words", "words", wrong);
}

// ---- beside others -------------------------------------------------------------------------------------------------

// Rounds on every device that there is, in turn: a kernel's numbers to the host, back, and looked at.
void work(double seconds) {
    std::vector<Device> all;
    if (!make(all, 1 << 20)) return bench.refused("rounds");
    std::vector<char> host(1 << 20);
    long rounds = 0;
    printf("{\"at\": \"ready\"}\n"), fflush(stdout);
    for (int c = getchar(); c != '\n' && c != EOF;) c = getchar();
    const double start = now();
    for (; now() - start < seconds && !bench.failures; ++rounds)
        for (const Device& d : all) {
            d.use();
            TRY(cudaMemcpy(host.data(), d.from, host.size(), cudaMemcpyDeviceToHost));
            TRY(cudaMemcpy(d.to, host.data(), host.size(), cudaMemcpyHostToDevice));
            wrong_words += d.not_from(d.number, d.to);
        }
    if (bench.failures) return bench.refused("rounds");
    bench.value("rounds", "rounds/s", static_cast<double>(rounds) / (now() - start));
    bench.value("wrong_words", "words", wrong_words);
}

std::string uuid_of(int device) {
    cudaDeviceProp its;
    if (!TRY(cudaGetDeviceProperties(&its, device))) return "?";
    std::string text = "GPU-";
    for (int i = 0; i < 16; ++i) {
        char two[4];
        snprintf(two, sizeof two, "%02x", static_cast<unsigned char>(its.uuid.bytes[i]));
        text += (i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "") + std::string(two);
    }
    return text;
}

int help(int status) {
    printf(
        "devices_bench [--quick] [--only PATTERN,...] [--budget MS] [--list | --work SECONDS]\n"
        "  --quick         smaller and fewer, for a software GPU\n"
        "  --only          only metrics that match, e.g. 'peer_bandwidth*'\n"
        "  --budget        milliseconds for one metric (200; quick: 20); 20 for one of a pair\n"
        "  --list          which devices this program sees, and no more\n"
        "  --work SECONDS  waits for a line on stdin, then copies and kernels on all devices in turn: how many rounds "
        "a second\n"
        "One line of JSON for each metric; without an option, pairs of devices and all at the same time. Exit status "
        "77: no device.\n");
    return status;
}

}  // namespace

int main(int argc, char** argv) {
    double budget = 0, seconds = 0;
    bool list = false;
    for (int i = 1; i < argc; ++i) {
        const std::string o = argv[i];
        const char* next = i + 1 < argc ? argv[i + 1] : nullptr;
        if (o == "--quick") bench.quick = true;
        else if (o == "--list") list = true;
        else if (o == "--help") return help(0);
        else if (o == "--only" && next) bench.only = argv[++i];
        else if (o == "--budget" && next) budget = atof(argv[++i]) / 1e3;
        else if (o == "--work" && next) seconds = atof(argv[++i]);
        else return help(2);
    }
    bench.budget = budget > 0 ? budget : bench.quick ? 0.02 : 0.2;
    cudaDeviceProp device;
    if (!TRY(cudaGetDeviceCount(&devices)) || !devices || !TRY(cudaGetDeviceProperties(&device, 0)))
        return fprintf(stderr, "devices_bench: no device\n"), 77;
    std::string uuids;
    for (int i = 0; i < devices; ++i) uuids += (i ? "," : "") + uuid_of(i);
    printf("{\"device\": \"%s\", \"devices\": %d, \"uuids\": \"%s\", \"quick\": %s}\n", device.name, devices,
           uuids.c_str(), bench.quick ? "true" : "false");
    fflush(stdout);
    if (seconds > 0) work(seconds);
    else if (!list) sums(), pairs();
    return bench.failures != 0;
}
