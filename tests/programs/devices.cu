// SPDX-License-Identifier: Apache-2.0
// devices.cu: several devices in one program. Each wait is for the device, the stream or the event that it names,
// whichever device is current and whatever was waited for before; copies find the device of their memory; a reset ends
// one device and leaves the others at work. All devices that there are, or those that the arguments number: each with
// the next one all that two can show, any two what is quick, and all at the same time. One device takes both parts,
// except for what only two can show.
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "driver.h"

constexpr int n = 1 << 18;  // ints
__device__ int own = 5;     // each device's

__global__ void fill(int* to, int value) { to[blockIdx.x * blockDim.x + threadIdx.x] = value; }
__global__ void add(int* to, int value) { to[blockIdx.x * blockDim.x + threadIdx.x] += value; }
__global__ void mark(volatile int* done) { *done = 1; }
__global__ void tell(int* where) { *where = own; }

// What is given to a stream behind hold() is not done before open().
struct Device {
    int number = 0;
    volatile int* shared = nullptr;  // [0]: the gate, [1]: done; in memory that both devices reach
    int *host = nullptr, *memory = nullptr, *there = nullptr;
    cudaStream_t blocking = nullptr, free = nullptr;
    cudaEvent_t event = nullptr;
    std::thread opener;

    void use() const { CHECK(cudaSetDevice(number)); }
    void make() {
        use();
        CHECK(cudaHostAlloc((void**)&shared, 4096, cudaHostAllocMapped | cudaHostAllocPortable));
        CHECK(cudaHostAlloc((void**)&host, n * sizeof(int), cudaHostAllocPortable));
        CHECK(cudaMalloc((void**)&memory, n * sizeof(int)));
        CHECK(cudaMalloc((void**)&there, n * sizeof(int)));
        CHECK(cudaStreamCreate(&blocking));
        CHECK(cudaStreamCreateWithFlags(&free, cudaStreamNonBlocking));
        CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
        shared[0] = shared[1] = 0;
        set(0), mark<<<1, 1>>>(seen()), add<<<1, 1>>>(memory, 0), tell<<<1, 1>>>(memory);  // code is loaded now
        CHECK(cudaDeviceSynchronize());
    }
    int* seen() const {
        int* address;
        CHECK(cudaHostGetDevicePointer((void**)&address, (void*)shared, 0));
        return address + 1;
    }
    void set(int value, cudaStream_t stream = nullptr) const { fill<<<n / 256, 256, 0, stream>>>(memory, value); }
    void hold(cudaStream_t stream) {
        static const auto wait = entry<decltype(&cuStreamWaitValue32)>("cuStreamWaitValue32");
        shared[0] = shared[1] = 0;
        DRIVER(wait((CUstream)stream, (CUdeviceptr)(seen() - 1), 1, CU_STREAM_WAIT_VALUE_GEQ));
    }
    void work(cudaStream_t stream) {  // behind a gate: `value` in memory, and then done
        hold(stream);
        set(7, stream);
        mark<<<1, 1, 0, stream>>>(seen());
        CHECK(cudaGetLastError());
    }
    void open() { shared[0] = 1; }
    void open_soon() {
        opener = std::thread([this] { std::this_thread::sleep_for(std::chrono::milliseconds(50)), open(); });
    }
    bool done() {  // what has been waited for; the gate has been opened then, if the wait was right
        if (opener.joinable()) {
            const int now = shared[1];
            opener.join();
            return now == 1;
        }
        return shared[1] == 1;
    }
};

static bool all(const int* at, int value) {
    for (int i = 0; i < n; ++i)
        if (at[i] != value) return false;
    return true;
}
static bool holds(const Device& d, int value, const int* memory = nullptr) {
    std::vector<int> back(n);
    d.use();
    CHECK(cudaMemcpy(back.data(), memory ? memory : d.memory, n * sizeof(int), cudaMemcpyDeviceToHost));
    return all(back.data(), value);
}

// ---- waits ----------------------------------------------------------------------------------------------------------

// a's work is waited for while b's is under way; then b's. Nothing was posted between the two waits.
template <class Stream, class Wait> static void each_for_itself(Device& a, Device& b, Stream stream, Wait wait) {
    a.use(), a.work(stream(a));
    b.use(), b.work(stream(b));
    a.open();
    a.use(), wait(a);
    REQUIRE(a.done());
    REQUIRE(b.shared[1] == 0);
    b.open_soon();
    b.use(), wait(b);
    REQUIRE(b.done());
}

static void waits(Device& a, Device& b) {
    const auto device = [](Device&) { CHECK(cudaDeviceSynchronize()); };
    const auto legacy = [](Device&) { return (cudaStream_t) nullptr; };
    const auto mine = [](Device&) { return cudaStreamPerThread; };
    const auto blocking = [](Device& d) { return d.blocking; };
    const auto free = [](Device& d) { return d.free; };
    each_for_itself(a, b, legacy, device);
    each_for_itself(a, b, mine, device);
    each_for_itself(a, b, blocking, device);
    each_for_itself(a, b, free, device);
    each_for_itself(a, b, legacy, [](Device&) { CHECK(cudaStreamSynchronize(nullptr)); });
    each_for_itself(a, b, legacy, [](Device&) { CHECK(cudaStreamSynchronize(cudaStreamLegacy)); });
    each_for_itself(a, b, blocking, [](Device&) { CHECK(cudaStreamSynchronize(nullptr)); });
    each_for_itself(a, b, mine, [](Device&) { CHECK(cudaStreamSynchronize(cudaStreamPerThread)); });
    each_for_itself(a, b, free, [](Device& d) { CHECK(cudaStreamSynchronize(d.free)); });
    each_for_itself(a, b, legacy, [](Device& d) {  // a synchronous copy waits for the default stream
        int first = 0;
        CHECK(cudaMemcpy(&first, d.memory, sizeof first, cudaMemcpyDeviceToHost));
        REQUIRE(first == 7);
    });
}

// Streams and events of a while b is current: they stay a's.
static void from_afar(Device& a, Device& b) {
    a.use(), a.work(a.free);
    b.use();
    CHECK(cudaMemcpyAsync(a.host, a.memory, n * sizeof(int), cudaMemcpyDeviceToHost, a.free));
    CHECK(cudaEventRecord(a.event, a.free));
    REQUIRE(cudaStreamQuery(a.free) == cudaErrorNotReady);
    REQUIRE(cudaEventQuery(a.event) == cudaErrorNotReady);
    REQUIRE(cudaEventRecord(a.event, b.free) == cudaErrorInvalidResourceHandle);
    REQUIRE(cudaGetLastError() == cudaErrorInvalidResourceHandle);
    REQUIRE(cudaEventQuery(a.event) == cudaErrorNotReady);
    CHECK(cudaDeviceSynchronize());  // b has nothing to do
    REQUIRE(a.shared[1] == 0);
    a.open_soon();
    CHECK(cudaEventSynchronize(a.event));
    REQUIRE(a.done());
    REQUIRE(all(a.host, 7));
    CHECK(cudaEventQuery(a.event));
    CHECK(cudaStreamSynchronize(a.free));
    CHECK(cudaStreamQuery(a.free));

    a.use(), a.work(a.free);
    a.open_soon();
    b.use();
    CHECK(cudaStreamSynchronize(a.free));
    REQUIRE(a.done());
}

// A stream of b waits for an event of a.
static void events(Device& a, Device& b) {
    a.use(), a.work(a.free);
    CHECK(cudaEventRecord(a.event, a.free));
    b.use();
    b.shared[1] = 0;
    CHECK(cudaStreamWaitEvent(b.free, a.event, 0));
    CHECK(cudaMemcpyPeerAsync(b.there, b.number, a.memory, a.number, n * sizeof(int), b.free));
    add<<<n / 256, 256, 0, b.free>>>(b.there, 10);
    mark<<<1, 1, 0, b.free>>>(b.seen());
    REQUIRE(cudaStreamQuery(b.free) == cudaErrorNotReady);
    REQUIRE(b.shared[1] == 0);
    a.open_soon();
    CHECK(cudaStreamSynchronize(b.free));
    REQUIRE(b.shared[1] == 1);
    REQUIRE(a.done());
    REQUIRE(holds(b, 17, b.there));
}

// ---- copies ---------------------------------------------------------------------------------------------------------

static void copies(Device& a, Device& b) {
    const size_t bytes = n * sizeof(int);
    int value = 100;
    for (const Device* current : {&a, &b})
        for (int form = 0; form < 7; ++form) {
            a.use(), a.set(++value);
            CHECK(cudaDeviceSynchronize());
            current->use();
            switch (form) {
                case 0: CHECK(cudaMemcpyPeer(b.there, b.number, a.memory, a.number, bytes)); break;
                case 1: CHECK(cudaMemcpyPeerAsync(b.there, b.number, a.memory, a.number, bytes, nullptr)); break;
                case 2: CHECK(cudaMemcpyPeerAsync(b.there, b.number, a.memory, a.number, bytes, current->free)); break;
                case 3: CHECK(cudaMemcpy(b.there, a.memory, bytes, cudaMemcpyDeviceToDevice)); break;
                case 4: CHECK(cudaMemcpy(b.there, a.memory, bytes, cudaMemcpyDefault)); break;
                case 5:
                    CHECK(cudaMemcpyAsync(b.there, a.memory, bytes, cudaMemcpyDeviceToDevice, current->free));
                    break;
                case 6: CHECK(cudaMemcpyAsync(b.there, a.memory, bytes, cudaMemcpyDefault, current->blocking)); break;
            }
            CHECK(cudaDeviceSynchronize());
            REQUIRE(holds(b, value, b.there));
        }
}

// Memory of a while b is current, to the host and from it.
static void host_copies(Device& a, Device& b) {
    std::vector<int> pageable(n);
    int value = 200;
    for (int* host : {pageable.data(), a.host, b.host})
        for (const auto kind : {true, false})
            for (const size_t count : {size_t{1}, size_t{1000}, size_t{n}}) {
                a.use(), a.set(++value);
                CHECK(cudaDeviceSynchronize());
                b.use();
                memset(host, 0, n * sizeof(int));
                CHECK(
                    cudaMemcpy(host, a.memory, count * sizeof(int), kind ? cudaMemcpyDeviceToHost : cudaMemcpyDefault));
                for (size_t i = 0; i < n; ++i) REQUIRE(host[i] == (i < count ? value : 0));
                for (size_t i = 0; i < count; ++i) host[i] = -value;
                CHECK(
                    cudaMemcpy(a.memory, host, count * sizeof(int), kind ? cudaMemcpyHostToDevice : cudaMemcpyDefault));
                std::vector<int> back(n);
                a.use();
                CHECK(cudaMemcpy(back.data(), a.memory, n * sizeof(int), cudaMemcpyDeviceToHost));
                for (size_t i = 0; i < n; ++i) REQUIRE(back[i] == (i < count ? -value : value));
            }
    if (a.number == b.number) return;
    // From pinned memory a copy has happened when the call returns, for a's streams as well.
    for (int i = 0; i < 100; ++i) {
        b.use();
        CHECK(cudaDeviceSynchronize());
        b.host[0] = i;
        CHECK(cudaMemcpy(a.there, b.host, sizeof(int), cudaMemcpyHostToDevice));
        a.use();
        CHECK(cudaMemcpyAsync(a.host, a.there, sizeof(int), cudaMemcpyDeviceToHost, a.free));
        CHECK(cudaStreamSynchronize(a.free));
        REQUIRE(a.host[0] == i);
    }
}

// A copy between devices that is no stream's comes after what both were given before, and before what they are given
// then.
static void serialized(Device& a, Device& b) {
    for (const Device* current : {&a, &b})
        for (const bool peer : {true, false}) {
            a.use(), a.set(1);
            CHECK(cudaDeviceSynchronize());
            a.work(nullptr);
            a.open_soon();
            current->use();
            if (peer) CHECK(cudaMemcpyPeer(b.there, b.number, a.memory, a.number, n * sizeof(int)));
            else CHECK(cudaMemcpy(b.there, a.memory, n * sizeof(int), cudaMemcpyDeviceToDevice));
            a.use(), a.set(9);
            b.use(), add<<<n / 256, 256>>>(b.there, 10);
            CHECK(cudaDeviceSynchronize());
            REQUIRE(a.done());
            REQUIRE(holds(b, 17, b.there));
            REQUIRE(holds(a, 9));
        }
}

// ---- what each has for itself ---------------------------------------------------------------------------------------

static void variables(Device& a, Device& b) {
    for (const Device* d : {&a, &b}) {
        const int mine = 40 + d->number;
        d->use();
        CHECK(cudaMemcpyToSymbol(own, &mine, sizeof mine));
    }
    for (const Device* d : {&a, &b}) {
        int told = 0;
        d->use();
        tell<<<1, 1>>>(d->memory);
        CHECK(cudaMemcpy(&told, d->memory, sizeof told, cudaMemcpyDeviceToHost));
        REQUIRE(told == 40 + d->number);
        CHECK(cudaMemcpyFromSymbol(&told, own, sizeof told));
        REQUIRE(told == 40 + d->number);
    }
}

static void pointers(Device& a, Device& b) {
    for (const Device* current : {&a, &b})
        for (const Device* d : {&a, &b}) {
            cudaPointerAttributes found;
            current->use();
            CHECK(cudaPointerGetAttributes(&found, d->memory));
            REQUIRE(found.type == cudaMemoryTypeDevice && found.device == d->number);
        }
}

// Both devices work on the same memory, one after the other; so does the CPU.
static void managed_memory(Device& a, Device& b) {
    int *large, *small;
    a.use();
    CHECK(cudaMallocManaged(&large, n * sizeof(int)));
    b.use();
    CHECK(cudaMallocManaged(&small, sizeof(int)));
    *small = 0;
    for (int i = 0; i < n; ++i) large[i] = i;
    for (int round = 1; round <= 3; ++round)
        for (const Device* d : {&a, &b}) {
            d->use();
            add<<<n / 256, 256, 0, round % 2 ? nullptr : d->free>>>(large, 1);
            CHECK(cudaDeviceSynchronize());
            add<<<1, 1, 0, d->free>>>(small, 1);
            CHECK(cudaStreamSynchronize(d->free));
            REQUIRE(*small == 2 * round - (d == &a));
            REQUIRE(large[n - 1] == n - 1 + *small && large[0] == *small);
            large[5] = 4 + *small + 1;
        }
    cudaPointerAttributes found;
    CHECK(cudaPointerGetAttributes(&found, large));
    REQUIRE(found.type == cudaMemoryTypeManaged && found.device == a.number);
    for (int i = 0; i < n; ++i) REQUIRE(large[i] == i + 6);
    CHECK(cudaFree(large));
    CHECK(cudaFree(small));
}

// A thread for each device, both at once.
static void threads(Device& a, Device& b) {
    const auto rounds = [](Device& d) {
        d.use();
        for (int i = 0; i < 60; ++i) {
            const cudaStream_t s = i % 3 == 0 ? nullptr : i % 3 == 1 ? d.free : cudaStreamPerThread;
            d.set(i, s);
            add<<<n / 256, 256, 0, s>>>(d.memory, d.number);
            CHECK(cudaMemcpyAsync(d.host, d.memory, n * sizeof(int), cudaMemcpyDeviceToHost, s));
            if (i % 2) CHECK(cudaDeviceSynchronize());
            else CHECK(cudaStreamSynchronize(s));
            REQUIRE(all(d.host, i + d.number));
        }
    };
    std::thread other(rounds, std::ref(b));
    rounds(a);
    other.join();
}

// ---- resets ---------------------------------------------------------------------------------------------------------

// b is reset while a is at work, which its driver may wait for: a neither ends nor notices.
static void reset_beside(Device& a, Device& b) {
    b.use(), b.set(3);
    const int mine = 6;
    CHECK(cudaMemcpyToSymbol(own, &mine, sizeof mine));
    CHECK(cudaDeviceSynchronize());
    a.use(), a.work(a.free);
    a.open_soon();
    b.use();
    CHECK(cudaDeviceReset());
    b.make();  // as a new one
    int told = 0;
    CHECK(cudaMemcpy(&told, b.memory, sizeof told, cudaMemcpyDeviceToHost));
    REQUIRE(told == 5);
    a.use();
    CHECK(cudaDeviceSynchronize());
    REQUIRE(a.done());
    REQUIRE(holds(a, 7));
    a.set(8, a.blocking);  // streams and memory are as they were, that of the host too
    mark<<<1, 1, 0, a.blocking>>>(a.seen());
    CHECK(cudaMemcpyAsync(a.host, a.memory, n * sizeof(int), cudaMemcpyDeviceToHost, a.blocking));
    CHECK(cudaEventRecord(a.event, a.blocking));
    CHECK(cudaEventSynchronize(a.event));
    REQUIRE(all(a.host, 8));
}

// ---- all of them ----------------------------------------------------------------------------------------------------

// All have work that has not begun. Each is waited for in turn, from the last to the first, and the others go on.
static void each_in_turn(std::vector<Device>& all) {
    for (Device& d : all) d.use(), d.work(d.free);
    for (size_t i = all.size(); i-- > 0;) {
        all[i].open_soon();
        all[i].use();
        CHECK(cudaDeviceSynchronize());
        REQUIRE(all[i].done());
        for (size_t other = 0; other < i; ++other) REQUIRE(all[other].shared[1] == 0);
    }
    for (const Device& d : all) REQUIRE(holds(d, 7));
}

// What the first has goes to the second, and so on to the last: each adds 1, when the one before it has.
static void in_a_row(std::vector<Device>& all) {
    all[0].use(), all[0].work(all[0].free);
    for (size_t i = 0; i < all.size(); ++i) {
        const Device& d = all[i];
        d.use();
        if (i > 0) {
            CHECK(cudaStreamWaitEvent(d.free, all[i - 1].event, 0));
            CHECK(cudaMemcpyAsync(d.memory, all[i - 1].memory, n * sizeof(int), cudaMemcpyDefault, d.free));
        }
        add<<<n / 256, 256, 0, d.free>>>(d.memory, 1);
        CHECK(cudaEventRecord(d.event, d.free));
    }
    all[0].open_soon();
    CHECK(cudaEventSynchronize(all.back().event));
    REQUIRE(all[0].done());
    for (size_t i = 0; i < all.size(); ++i) REQUIRE(holds(all[i], 8 + (int)i));
}

// All copy from one block of the host's memory and into parts of another at the same time, and read the first in place
// if they may.
static void host_memory(std::vector<Device>& all) {
    const size_t bytes = n * sizeof(int), everything = all.size() * bytes;
    std::vector<int> plain[2] = {std::vector<int>(n), std::vector<int>(all.size() * n)},
                     named[2] = {plain[0], plain[1]};
    int* pinned[2];
    all[0].use();
    CHECK(cudaHostAlloc((void**)&pinned[0], bytes, cudaHostAllocPortable | cudaHostAllocMapped));
    CHECK(cudaHostAlloc((void**)&pinned[1], everything, cudaHostAllocPortable));
    for (auto& block : named)
        CHECK(cudaHostRegister(block.data(), block.size() * sizeof(int),
                               cudaHostRegisterPortable | cudaHostRegisterMapped));
    int round = 0;
    for (const auto& [from, to] :
         {std::pair{plain[0].data(), plain[1].data()}, {named[0].data(), named[1].data()}, {pinned[0], pinned[1]}}) {
        ++round;
        for (int i = 0; i < n; ++i) from[i] = round * i;
        for (size_t i = 0; i < all.size(); ++i) {
            const Device& d = all[i];
            d.use();
            CHECK(cudaMemcpyAsync(d.memory, from, bytes, cudaMemcpyDefault, d.free));
            add<<<n / 256, 256, 0, d.free>>>(d.memory, (int)i);
            CHECK(cudaMemcpyAsync(to + i * n, d.memory, bytes, cudaMemcpyDefault, d.free));
        }
        for (const Device& d : all) CHECK(cudaStreamSynchronize(d.free));
        for (size_t i = 0; i < all.size(); ++i)
            for (int k = 0; k < n; ++k) REQUIRE(to[i * n + k] == round * k + (int)i);
        if (from == plain[0].data()) continue;
        for (const Device& d : all) {  // a kernel adds to it where it lies
            int* seen = nullptr;
            d.use();
            CHECK(cudaHostGetDevicePointer((void**)&seen, from, 0));
            add<<<n / 256, 256>>>(seen, 1);
            CHECK(cudaDeviceSynchronize());
        }
        for (int k = 0; k < n; ++k) REQUIRE(from[k] == round * k + (int)all.size());
    }
    for (auto& block : named) CHECK(cudaHostUnregister(block.data()));
    for (int* block : pinned) CHECK(cudaFreeHost(block));
}

static void two(Device& a, Device& b, bool next) {
    const auto both = [&](void (*check)(Device&, Device&)) { check(a, b), check(b, a); };
    const bool differ = a.number != b.number;
    if (differ && next) both(waits), both(from_afar), both(variables), both(serialized);
    if (differ) both(pointers);
    both(events), both(copies), threads(a, b);
    if (!next) return;
    both(host_copies), both(managed_memory);
    if (differ) both(reset_beside), both(variables), both(waits), both(copies);
}

// A thread that has set no device has the first of those that the process prefers; others keep theirs.
static void preferred(int other) {
    CHECK(cudaSetDevice(0));
    int wanted[] = {other, 0};
    REQUIRE(cudaSetValidDevices(wanted, -1) == cudaErrorInvalidValue);
    CHECK(cudaSetValidDevices(wanted, 2));
    const auto of_thread = [](bool works) {
        int device = -1;
        std::thread([&] {
            if (works) CHECK(cudaFree(nullptr));
            CHECK(cudaGetDevice(&device));
        }).join();
        return device;
    };
    REQUIRE(of_thread(false) == other && of_thread(true) == other);
    int mine = -1;
    CHECK(cudaGetDevice(&mine));
    REQUIRE(mine == 0);
    CHECK(cudaSetValidDevices(nullptr, 0));
    REQUIRE(of_thread(false) == 0 && of_thread(true) == 0);
}

int main(int argc, char** argv) {
    int count = 0;
    CHECK(cudaGetDeviceCount(&count));
    std::vector<int> numbers;
    for (int i = 1; i < argc; ++i) numbers.push_back(atoi(argv[i]));
    for (int i = 0; argc < 2 && i < count; ++i) numbers.push_back(i);
    printf("%zu of %d devices%s\n", numbers.size(), count, count < 2 ? ": what two would show is not shown" : "");
    if (numbers.size() < 2) numbers.push_back(numbers[0]);
    std::vector<Device> all(numbers.size());
    for (size_t i = 0; i < all.size(); ++i) all[i].number = numbers[i], all[i].make();
    for (size_t i = 0; i < all.size(); ++i)
        for (size_t j = i + 1; j < all.size(); ++j) two(all[i], all[j], j == i + 1 || (i == 0 && j == all.size() - 1));
    if (all[0].number != all[1].number) each_in_turn(all);
    in_a_row(all), host_memory(all);
    if (count > 1) preferred(count - 1);
    return verdict(0);
}
