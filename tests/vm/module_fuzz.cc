// SPDX-License-Identifier: Apache-2.0
// module_fuzz: processes that mean no good to the guest module, at random (mischief.h), several at a time, with several
// threads, as root and not, killed at random. Whatever they do: no word that one family wrote is ever read by another,
// no process may write the header, and when all have ended every channel is free, nothing counts as mapped, and the
// next client is served. What the kernel itself has to say is for the caller to look at (tests/vm/check).
//
//   module_fuzz [--seconds N] [--seed N] [--unplug]
//
// --unplug (root, a PCI device): the device vanishes under them sometimes, and comes back. Threads and kills come
// when they come: a seed gives the same mischief, not the same run.
#include <grp.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <chrono>
#include <fstream>
#include <iterator>
#include <thread>
#include <vector>

#include "tests/vm/disk.h"
#include "tests/vm/mischief.h"
#include "tests/vm/pci.h"

using namespace barcuda;
using namespace barcuda::vm;

namespace {

constexpr unsigned families = 3;

struct Options {
    unsigned seconds = 30;
    std::uint64_t seed = 0;
    bool unplug = false;
} options;

using Clock = std::chrono::steady_clock;

void on_fault(int signal) {
    if (Life::way_back) siglongjmp(*Life::way_back, 1);
    std::signal(signal, SIG_DFL);  // and again, for good
}

// A process from beginning to end.
[[noreturn]] void one_life(const Means& means, std::uint64_t seed, gid_t group) {
    Random r(seed);
    if (r.chance(50) && (setgroups(1, &group) || setgid(4321) || setuid(4321))) _exit(2);
    prctl(PR_SET_DUMPABLE, 1);  // its /proc is its own again, and core files are written
    alarm(10);
    if (chdir(getuid() ? "/run/fuzz/user" : "/run/fuzz/root")) _exit(2);  // for core files
    const rlimit core{16 << 20, 16 << 20}, data{256 << 20, 256 << 20};
    setrlimit(RLIMIT_CORE, &core);
    setrlimit(RLIMIT_DATA, &data);
    std::ofstream("/proc/self/oom_score_adj") << 1000;
    for (int s : {SIGSEGV, SIGBUS}) {
        struct sigaction action {};
        action.sa_handler = on_fault;
        action.sa_flags = SA_NODEFER;
        sigaction(s, &action, nullptr);
    }
    signal(SIGPIPE, SIG_IGN);
    signal(SIGIO, SIG_IGN);
    signal(SIGCHLD, SIG_IGN);
    if (options.unplug) close(2);  // it would tell that the device is away
    Life life(means);
    std::vector<std::thread> threads;
    for (auto n = r.below(3); n > 0; --n)
        threads.emplace_back([&, own = Random(r.next())]() mutable { life.live(own, 400); });
    life.live(r, 400);
    for (auto& t : threads) t.join();
    _exit(0);
}

void family(Means means, Clock::time_point until, gid_t group) {
    Random r(options.seed * 1000 + means.family);
    while (Clock::now() < until && !means.found.wrong) {
        const std::uint64_t seed = r.next();
        if (options.unplug && pci_node().empty()) {
            usleep(1000);
            continue;
        }
        const pid_t pid = fork();
        if (pid == 0) one_life(means, seed, group);
        means.found.lives++;
        const bool killed = r.chance(60);
        if (killed) {
            usleep(static_cast<unsigned>(r.below(400'000)));
            kill(pid, SIGKILL);
        }
        const int status = status_of(pid);
        // There was no device, or it vanished while the life looked at its header, which is memory of the device.
        if (options.unplug && (status == 1 || status == 128 + SIGBUS)) continue;
        if (status != 0 && status != 128 + SIGKILL && status != 128 + SIGALRM)
            means.found.say("life %#lx of family %u ended with status %d", seed, means.family, status);
    }
    _exit(0);
}

// All processes that are left: they are ours, or become ours.
std::vector<pid_t> children() {
    std::ifstream list("/proc/self/task/" + std::to_string(getpid()) + "/children");
    return {std::istream_iterator<pid_t>(list), {}};
}

void end_all(Findings& found) {
    const auto limit = Clock::now() + std::chrono::seconds(60);
    for (std::vector<pid_t> left; !(left = children()).empty(); usleep(1000)) {
        for (pid_t pid : left) kill(pid, SIGKILL);
        while (waitpid(-1, nullptr, WNOHANG) > 0) continue;
        if (Clock::now() < limit) continue;
        std::ifstream stack("/proc/" + std::to_string(left[0]) + "/stack");
        const std::string where(std::istreambuf_iterator<char>(stack), {});
        std::fprintf(stderr, "process %d cannot be killed:\n%s\n", left[0], where.c_str());
        return found.say("%zu processes cannot be killed", left.size());
    }
}

template <class Condition> bool comes_true(Condition condition) {
    for (int i = 0; i < 20000; ++i, usleep(500))
        if (condition()) return true;
    return false;
}

// What must hold when no process is left.
void judge(Findings& found, const barcuda_header& before) {
    if (std::memcmp(header().memory(), &before, sizeof before) != 0) found.say("the header is not what it was");
    for (unsigned i = 0; i < before.channel_count; ++i) {
        const barcuda_slot& s = header().slot(i);
        if (!comes_true(
                [&] { return observe(s.opened) == observe(s.closed) && observe(s.reclaimed) == observe(s.closed); }))
            found.say("slot %u: opened %u, closed %u, reclaimed %u", i, s.opened, s.closed, s.reclaimed);
    }
    for (unsigned i = 0; i < before.granule_count; ++i)
        if (!comes_true([&] { return observe(header().grant(i).mapped) == 0; }))
            return found.say("granule %u still counts %u pages", i, header().grant(i).mapped);
    const int next = in_child([] {
        Client c;
        if (c.error() || c.map_extents(0, stub_granules)) return 1;
        for (std::size_t i = 0; i < stub_granules * BARCUDA_GRANULE; i += BARCUDA_PAGE)
            if (c.address()[i]++ != 0) return 2;
        return 0;
    });
    if (next) found.say("the next client is not served: %d", next);
}

void say_tally(const Findings& found) {
    std::uint64_t calls = 0;
    for (const auto& n : found.calls) calls += n;
    std::printf("%lu lives, %lu calls:", found.lives.load(), calls);
    for (std::size_t i = 0; i < std::size(Life::acts); ++i)
        std::printf(" %s %lu of %lu%s", Life::acts[i].name, found.successes[i].load(), found.calls[i].load(),
                    i + 1 < std::size(Life::acts) ? "," : "\n");
}

// The node of whichever device there is now; while it is away the last one, which cannot be opened.
const char* present_node() {
    static std::string last;
    if (const std::string now = options.unplug ? pci_node() : device(); !now.empty()) last = now;
    return last.c_str();
}

}  // namespace

int main(int argc, char** argv) {
    for (int i = 1; i < argc; ++i) {
        const std::string option = argv[i];
        if (option == "--unplug") options.unplug = true;
        else if (option == "--seconds" && i + 1 < argc) options.seconds = static_cast<unsigned>(std::atoi(argv[++i]));
        else if (option == "--seed" && i + 1 < argc) options.seed = std::strtoull(argv[++i], nullptr, 0);
        else {
            std::fprintf(stderr, "usage: module_fuzz [--seconds N] [--seed N] [--unplug]\n");
            return 2;
        }
    }
    if (!options.seed) options.seed = static_cast<std::uint64_t>(time(nullptr));
    std::printf("seed %lu\n", options.seed);
    std::fflush(stdout);

    auto& found =
        *new (mmap(nullptr, sizeof(Findings), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) Findings{};
    Means means{found, 0, {-1, -1}, open_disk(), present_node};
    struct stat node {};
    if (stat(present_node(), &node) || socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, means.letters)) {
        std::perror(present_node());
        return 2;
    }
    for (const char* folder : {"/run/fuzz", "/run/fuzz/root", "/run/fuzz/user"})
        if ((mkdir(folder, 0755) && errno != EEXIST) || chmod(folder, 0777)) {
            std::perror(folder);
            return 2;
        }
    prctl(PR_SET_CHILD_SUBREAPER, 1);

    barcuda_header before;
    {
        const Header h;
        std::memcpy(&before, h.memory(), sizeof before);
    }
    const auto until = Clock::now() + std::chrono::seconds(options.seconds);
    for (means.family = 1; means.family <= families; ++means.family)
        if (fork() == 0) family(means, until, node.st_gid);
    Random r(options.seed);
    while (Clock::now() < until && !found.wrong) {
        usleep(static_cast<unsigned>(500'000 + r.below(1'500'000)));
        if (!options.unplug || pci_node().empty()) continue;
        unplug();
        usleep(static_cast<unsigned>(r.below(20'000)));
        rescan();
    }
    end_all(found);
    for (int fd : means.letters) close(fd);  // with the descriptors that were never taken out
    if (options.unplug && !comes_true([] { return !pci_node().empty(); })) found.say("the device does not come back");
    setenv("BARCUDA_TEST_DEVICE", present_node(), 1);
    judge(found, before);
    say_tally(found);
    for (unsigned i = 0; i < std::min<unsigned>(found.wrong, std::size(found.text)); ++i)
        std::printf("FAILED  %s\n", found.text[i]);
    for (std::size_t i = 0; i < std::size(Life::acts) && options.seconds >= 20; ++i)
        if (!found.successes[i] && std::strcmp(Life::acts[i].name, "end") != 0)
            std::printf("note: '%s' never succeeded\n", Life::acts[i].name);
    std::printf(found.wrong ? "FAILED\n" : "passed\n");
    return found.wrong != 0;
}
