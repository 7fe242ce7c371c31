// SPDX-License-Identifier: Apache-2.0
// api_model.cu: a random program of everything but copies, and a model of what every counter must be: streams of all
// kinds, events, functions of the program, graphs, memory that is allocated and freed while the device is busy,
// modules, threads that are born and die, forked children. (Its sibling copy_model.cu is about bytes.)
//
// What is given to a stream checks that it comes in its turn: each stream has a count in mapped memory, and each thing
// that is given to it knows what the count must be then, and raises it by one. So a lost, doubled or early thing shows
// at once, and each way to wait is checked by a look at the counts. Some kernels wait for a gate, a word that a thread
// opens soon: it makes no CUDA call, only mallocs, so that no lane can keep it from opening the gate.
//
//   api_model [seconds=N | steps=N] [seed=N] [threads=N] [forks=0|1] [prints=0|1]
//
// It knows nothing of Barcuda: it passes on CUDA's own library, and names the seed and the step where it does not.
#include "api_model_graphs.h"
#include "api_model_memory.h"

int main(int argc, char** argv) {
    parse(argc, argv, 16, {{"forks", &forks}, {"prints", &prints}});
    setlinebuf(stdout);
    CHECK(cudaFree(nullptr));
    opener = std::make_unique<Opener>();
    run_lanes([](int number) {
        Lane program(number);
        act(program);
    });
    opener->stop();
    for (Posted& p : board)
        if (p.event) CHECK(cudaEventDestroy(p.event));
    CHECK(cudaDeviceSynchronize());
    arenas.free();
    printf("seed %.0f: %lu things in their order, %lu lines said\nPASSED\n", options.seed, things.load(),
           printed.load());
    return 0;
}
