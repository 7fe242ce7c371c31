// SPDX-License-Identifier: Apache-2.0
// model.h: what the random programs share (api_model.cu, copy_model.cu): their options, their dice, their lanes, and
// how they end when the device does not do what their model says.
#pragma once
#include <cuda_runtime.h>
#include <errno.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#define CHECK(call)                                                                      \
    do {                                                                                 \
        if (const cudaError_t e_ = (call)) die("%s: %s", #call, cudaGetErrorString(e_)); \
    } while (0)

namespace {

struct Options {
    double seconds = 0, steps = 2000, seed = 1, threads = 1;
} options;

thread_local uint64_t step;  // for messages
thread_local int lane;

template <class... T> [[noreturn]] void die(const char* format, T... values) {
    fprintf(stderr, "%s: seed %.0f, thread %d, step %lu: ", program_invocation_short_name, options.seed, lane, step);
    fprintf(stderr, format, values...);
    fprintf(stderr, "\n");
    fflush(nullptr);
    _exit(1);
}

struct Random {
    uint64_t state;
    uint64_t operator()() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        return state * 0x2545f4914f6cdd1dull;
    }
    size_t below(size_t n) { return n ? ((*this)() >> 11) % n : 0; }
    bool one_in(size_t n) { return below(n) == 0; }
};
Random dice_of(int lane) { return {(static_cast<uint64_t>(options.seed) * 1000 + lane) * 0x9e3779b97f4a7c15u | 1}; }

// NAME=N for each of the shared options and of the program's own. Ends the program where that is not what it was given.
void parse(int argc, char** argv, int most_threads, std::initializer_list<std::pair<const char*, double*>> own) {
    std::vector<std::pair<const char*, double*>> all = {{"seconds", &options.seconds},
                                                        {"steps", &options.steps},
                                                        {"seed", &options.seed},
                                                        {"threads", &options.threads}};
    all.insert(all.end(), own);
    for (int i = 1; i < argc; ++i) {
        const std::string word = argv[i], name = word.substr(0, word.find('='));
        bool known = false;
        for (const auto& [its, place] : all)
            if (name == its && name.size() + 1 < word.size()) {
                known = true;
                *place = atof(word.c_str() + name.size() + 1);
            }
        if (known && options.threads >= 1 && options.threads <= most_threads && options.steps >= 0) continue;
        fprintf(stderr, "usage: %s", program_invocation_short_name);
        for (const auto& [its, place] : all) fprintf(stderr, " [%s=N]", its);
        fprintf(stderr, "   at most %d threads\n", most_threads);
        exit(2);
    }
}

template <class Program> void act(Program& program) {
    const auto start = std::chrono::steady_clock::now();
    const auto seconds = [&] {
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    };
    for (step = 0; options.seconds > 0 ? seconds() < options.seconds : step < options.steps; ++step) program.act();
}

// run(number) in as many threads as were asked for, this one among them.
template <class Run> void run_lanes(Run run) {
    std::vector<std::thread> others;
    const auto begin = [run](int number) {
        lane = number;
        run(number);
    };
    for (int t = 1; t < options.threads; ++t) others.emplace_back(begin, t);
    begin(0);
    for (std::thread& t : others) t.join();
}

}  // namespace
