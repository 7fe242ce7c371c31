// api_model.cu: a random program of everything but copies, and a model of what every counter must be: streams of all
// kinds, events, functions of the program, graphs, memory that comes and goes while the device is busy, modules,
// threads that are born and die, forked children. (Its sibling copy_model.cu is about bytes.)
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

namespace {

void run(int number) {
    lane = number;
    Lane program(number);
    const auto start = std::chrono::steady_clock::now();
    const auto seconds = [&] {
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    };
    for (step = 0; options.seconds ? seconds() < options.seconds : step < options.steps; ++step) program.act();
}

}  // namespace

int main(int argc, char** argv) {
    constexpr int most = 16;
    for (int i = 1; i < argc; ++i) {
        const std::string word = argv[i];
        const std::string name = word.substr(0, word.find('='));
        const double value = name.size() < word.size() ? atof(word.c_str() + name.size() + 1) : -1;
        if (name == "seconds" && value > 0) options.seconds = value;
        else if (name == "steps" && value > 0) options.steps = static_cast<uint64_t>(value);
        else if (name == "seed" && value >= 0) options.seed = static_cast<uint64_t>(value);
        else if (name == "forks" && value >= 0) options.forks = value != 0;
        else if (name == "prints" && value >= 0) options.prints = value != 0;
        else if (name == "threads" && value > 0 && value <= most) options.threads = static_cast<int>(value);
        else {
            fprintf(stderr,
                    "usage: api_model [seconds=N | steps=N] [seed=N] [threads=1..%d] [forks=0|1] [prints=0|1]\n", most);
            return 2;
        }
    }
    setlinebuf(stdout);
    CHECK(cudaFree(nullptr));
    opener = std::make_unique<Opener>();
    std::vector<std::thread> others;
    for (int t = 1; t < options.threads; ++t) others.emplace_back(run, t);
    run(0);
    for (std::thread& t : others) t.join();
    opener->stop();
    for (Posted& p : board)
        if (p.event) CHECK(cudaEventDestroy(p.event));
    CHECK(cudaDeviceSynchronize());
    printf("seed %lu: %lu things in their order, %lu lines said\nPASSED\n", options.seed, things.load(),
           printed.load());
    return 0;
}
