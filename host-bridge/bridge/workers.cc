// SPDX-License-Identifier: Apache-2.0
// workers.cc: the processes that the bridge starts for its clients: how a worker starts, and what it is given; how it ends, and what the
// bridge logs about that; and warm workers, which wait for a client. (bridge.cc decides which client gets which worker.)
#include <cuda.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

#include "base/log.h"
#include "host-bridge/bridge/bridge.h"
#include "shm-device/cuda/visible_devices.h"
#include "shm-device/queue/sync.h"
#include "shm-device/queue/wire.h"
#include "shm-device/rows/identity.h"

namespace barcuda {
namespace {

// glibc 2.36 declares pidfd_open without extern "C".
int open_pid(pid_t pid) { return static_cast<int>(syscall(SYS_pidfd_open, pid, 0)); }

// How a child ends that there were no descriptors for, and one that did not get into its cage.
constexpr int no_descriptors = 125, no_namespaces = 124, no_group = 123;

std::string describe_end(int status) {
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS)
        return "was killed for a system call that its cage denies (syscalls), in a thread that lets no signal through";
    if (WIFSIGNALED(status))
        return fmt::format("was killed by signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)));
    if (WEXITSTATUS(status) == no_descriptors)
        return "could not be given its descriptors: the bridge may have too few files open (ulimit -n)";
    if (WEXITSTATUS(status) == no_namespaces)
        return "could not enter the workers' namespaces or become their user (--no-cage network,ipc,mounts,user)";
    if (WEXITSTATUS(status) == no_group) return "could not enter its control group (--no-cage cgroup)";
    return fmt::format("ended with status {}", WEXITSTATUS(status));
}

// How a worker died, as "was killed in NAME": what it has noted of it, the status of its process, and whether it was too large.
std::string describe_end(const Sheet& sheet, int status, bool too_large) {
    const std::uint32_t denied = observe(sheet.denied), command = observe(sheet.command);
    return (denied != Sheet::nothing ? cage::denied(denied)
            : too_large ? "was killed, for it took more of the host's memory than its client may have (worker-memory)"
                        : describe_end(status)) +
           (command < op_names.size() ? fmt::format(" in {}", op_names[command]) : "");
}

// A file in memory for a sheet. Its length is for good: the bridge reads it, and who cuts it short would end the bridge.
int make_sheet() {
    const int file = memfd_create("barcuda-sheet", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    const Sheet empty;
    if (file >= 0 && write(file, &empty, sizeof empty) == sizeof empty &&
        fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0)
        return file;
    if (file >= 0) close(file);
    return -1;
}
Sheet* map_sheet(int file) {
    void* const at = mmap(nullptr, sizeof(Sheet), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    return at == MAP_FAILED ? nullptr : static_cast<Sheet*>(at);
}

}  // namespace

// How many descriptors a client may have the bridge hold: an equal share of what the bridge has no need of itself.
std::size_t Bridge::files_of_each() {
    constexpr std::size_t own = 64, of_a_worker = 5, most = 4096;  // segments of 20 MiB, as PyTorch has them, of 80 GiB
    getrlimit(RLIMIT_NOFILE, &files_);
    rlimit all = files_;
    all.rlim_cur = all.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &all) != 0) all = files_;
    const std::size_t clients = region_.shape().channel_count, needed = own + of_a_worker * (clients + warm_.most());
    return all.rlim_cur < needed + clients ? 1 : std::min<std::size_t>(most, (all.rlim_cur - needed) / clients);
}

bool Bridge::start_worker(Worker& worker, const std::vector<int>& devices) {
    // The bridge's end of the link never makes it wait.
    int link[2] = {-1, -1}, errors[2] = {-1, -1}, said[2] = {-1, -1}, pidfd = -1;
    const File sheet(make_sheet());
    Sheet* shared = nullptr;
    std::string group;
    const auto give_up = [&] {
        const int why = errno;
        if (!group.empty()) cage_.groups->remove(group);
        for (const int fd : {link[0], link[1], errors[0], errors[1], said[0], said[1]})
            if (fd >= 0) close(fd);
        if (shared) munmap(shared, sizeof *shared);
        return errno = why, false;
    };
    if (!sheet || !(shared = map_sheet(sheet.fd()))) return give_up();
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, link) != 0 || fcntl(link[0], F_SETFL, O_NONBLOCK) != 0 ||
        pipe2(errors, O_CLOEXEC | O_NONBLOCK) != 0 || pipe2(said, O_CLOEXEC) != 0 ||
        fcntl(said[0], F_SETFL, O_NONBLOCK) != 0)
        return give_up();
    if (cage_.order.has(cage::Measure::cgroup) && (group = cage_.groups->make()).empty()) return give_up();
    const pid_t pid = fork();
    if (pid == 0) {
        if (!group.empty() && !cage_.groups->join(group)) _exit(no_group);
        if (first_) cage::enter_bridge(cage_), cage::close_bridge(cage_);  // later ones inherit both
        if (!cage::join(cage_)) _exit(no_namespaces);
        // By way of descriptors that are nobody's: either target may be the other's source.
        constexpr auto moved = [](int fd) { return fcntl(fd, F_DUPFD, 16); };
        const int given[][2] = {{moved(region_.fd()), region_fd}, {moved(link[1]), link_fd},
                                {moved(said[1]), log_fd},         {moved(sheet.fd()), sheet_fd},
                                {moved(errors[0]), errors_fd},    {moved(errors[1]), into_errors_fd}};
        const int optional[][2] = {{doorbell_ ? moved(doorbell_.guest()) : -1, doorbell_fd},
                                   {turns_.fd() >= 0 ? moved(turns_.fd()) : -1, turns_fd}};
        for (const auto& [fd, place] : given)
            if (dup2(fd, place) < 0) _exit(no_descriptors);
        for (const auto& [fd, place] : optional)
            if (fd < 0) close(place);
            else if (dup2(fd, place) < 0) _exit(no_descriptors);
        close_range(turns_fd + 1, ~0u, 0);
        sigset_t none;
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, nullptr);
        setrlimit(RLIMIT_NOFILE, &files_);
        if (devices != every_) setenv("CUDA_VISIBLE_DEVICES", visible_list(devices_, devices).c_str(), 1);
        personality(ADDR_COMPAT_LAYOUT);  // the driver's addresses stay apart from guest programs': BARCUDA_DEVICE_BASE
        become_worker();
    }
    if (pid < 0) return give_up();
    if ((pidfd = open_pid(pid)) < 0) {  // closed on exec, as the kernel makes it
        const int why = errno;
        kill(pid, SIGKILL), waitpid(pid, nullptr, 0);  // it has nothing yet that takes long to let go
        errno = why;
        return give_up();
    }
    close(link[1]), close(errors[1]), close(said[1]);
    worker = {};
    worker.pid = pid, worker.pidfd = pidfd, worker.link = link[0], worker.errors = errors[0];
    worker.said = WorkerLog(File(said[0]));
    worker.called = fmt::format("worker {}", pid), worker.may_say = options_.limits.client[Limit::log_text];
    worker.sheet = shared, worker.devices = devices, worker.group = group;
    if (cage_.order.has(cage::Measure::extents)) worker.mapper = cage::Listener::expected();
    prepare(worker);
    return true;
}

// In a fresh process. What a wrapper runs must be a name that is still this program in the wrapper's own processes.
void Bridge::become_worker() const {
    if (options_.wrapper.empty()) {
        execle("/proc/self/exe", "barcuda-bridge", "--worker", library_.c_str(), nullptr,
               cage::environment(cage_.order).data());
        _exit(127);
    }
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    signal(SIGINT, SIG_DFL);  // `barcuda run` ignores it, and a debugger may not
    std::error_code ec;
    const std::string self = std::filesystem::read_symlink("/proc/self/exe", ec);
    execl("/bin/sh", "sh", "-c", ("exec " + options_.wrapper + " \"$@\"").c_str(), "sh", self.c_str(), "--worker",
          library_.c_str(), nullptr);
    _exit(127);
}

// The extents that a client asks for first. They are taken only where there is plenty.
void Bridge::prepare(Worker& worker) {
    constexpr std::uint64_t plenty = 8;
    Preparation prepared{getpid(),
                         region_.shape().base,
                         static_cast<unsigned>(worker.devices.size()),
                         first_,
                         !options_.wrapper.empty(),
                         turns_.fd() >= 0,
                         turns_.group(),
                         {},
                         cage_.order};
    for (auto& extent : prepared.extents) {
        if (!may_reserve(Preparation::most * wire::first_extent)) break;
        if (grants_->free() / plenty < wire::first_extent) break;
        const Grants::Run run = grants_->reserve(wire::first_extent, [this] { return has_time(); });
        if (run.bytes == 0) break;
        if (!has_room(plenty * run.bytes)) {
            grants_->release(run);
            break;
        }
        extent = {run.offset, run.bytes};
        worker.reserved.push_back(run);
    }
    send(worker.link, &prepared, sizeof prepared, MSG_NOSIGNAL);
}

void Bridge::dismiss_waiting(bool (*which)(const Worker&)) {
    std::erase_if(waiting_, [&](Worker& w) {
        if (!which(w)) return false;
        dismiss(w), leaving_.push_back(std::move(w));
        return true;
    });
}

// What waiting workers hold, for a client that finds no room. Others come later: each costs a start of the driver, and
// may have to go for the next such client.
void Bridge::drop_reserves() {
    dismiss_waiting([](const Worker& w) { return !w.reserved.empty(); });
    put_off_warm();
}

// A wrapper has something to say yet when its worker ends. So a wrapped worker is told to end by itself (worker.cc).
void Bridge::dismiss(Worker& worker) const {
    if (worker.leaving()) return;
    worker.dismissed = std::chrono::steady_clock::now();
    if (options_.wrapper.empty()) kill(worker.pid, SIGKILL);
    else shutdown(worker.link, SHUT_WR);
}

// Nothing of it uses the client's memory any more: its process has ended, and if that was a wrapper, the worker has let go of the
// link, too. (A profiler's daemon may have inherited that, and live on: a worker ends within ten seconds of its dismissal.)
bool Bridge::has_gone(const Worker& worker) const {
    constexpr std::chrono::seconds at_last{15};
    siginfo_t end{};  // a debugger may keep one that its pidfd calls dead
    if (waitid(P_PID, static_cast<id_t>(worker.pid), &end, WEXITED | WNOHANG | WNOWAIT) == 0 && end.si_pid == 0)
        return false;
    pollfd link{worker.link, 0, 0};
    poll(&link, 1, 0);
    return options_.wrapper.empty() || link.revents & POLLHUP ||
           (worker.leaving() && std::chrono::steady_clock::now() - worker.dismissed > at_last);
}

// Its process has begun to end, which a driver can make last.
bool Bridge::is_ending(const Worker& worker) {
    constexpr unsigned long exiting = 4;  // PF_EXITING, of /proc/PID/stat's ninth field
    std::string line;
    std::getline(std::ifstream(fmt::format("/proc/{}/stat", worker.pid)), line);
    std::istringstream fields(line.substr(std::min(line.size(), line.rfind(')') + 1)));
    std::string state;
    unsigned long flags = exiting;  // nothing to read: it has gone
    long number = 0;
    fields >> state >> number >> number >> number >> number >> number >> flags;
    return flags & exiting;
}

// Ends it; nobody waits here: a driver may take seconds to let a process go, and a wrapper has work to do yet. False: it
// is still there.
bool Bridge::release_worker(Worker& worker) {
    if (worker.pid <= 0) return true;
    dismiss(worker);
    if (!has_gone(worker)) return false;
    reap(worker);
    return true;
}

std::string Bridge::reap(Worker& worker) {
    int status = 0;
    waitpid(worker.pid, &status, 0);
    const bool grouped = !worker.group.empty();
    const std::string end = describe_end(*worker.sheet, status,
                                         grouped && WIFSIGNALED(status) && cage_.groups->was_too_large(worker.group));
    if (grouped) cage_.groups->remove(worker.group);
    const auto now = std::chrono::steady_clock::now();
    const auto limits = log_limits(worker);
    const auto say = log_of(worker);
    worker.said.end(limits, now, say);
    char text[4096];
    int parts = 16;  // a pipe holds no more; a child of the worker's may go on writing
    for (ssize_t n; parts-- > 0 && (n = read(worker.errors, text, sizeof text)) > 0;)
        worker.said.add({text, static_cast<std::size_t>(n)}, limits, now, say);
    worker.said.end(limits, now, say);
    for (const Grants::Run& run : worker.reserved) grants_->release(run);
    for (const int fd : {worker.pidfd, worker.link, worker.errors})
        if (fd >= 0) close(fd);
    munmap(worker.sheet, sizeof *worker.sheet);
    worker = {};
    return end;
}

void Bridge::read_logs() {
    each_worker([&, now = std::chrono::steady_clock::now()](Worker& w) {
        if (w.said.fd(now) >= 0) w.said.read_on(log_limits(w), now, log_of(w));
    });
}

WorkerLog::Limits Bridge::log_limits(const Worker& worker) {
    return {worker.may_say, options_.limits.guest[Limit::log_text], &workers_text_};
}

WorkerLog::Say Bridge::log_of(const Worker& worker) {
    return [&worker](log::Level level, std::string_view text) {
        log::pass_on(level, fmt::format("{}: {}", worker.called, text));
    };
}

void Bridge::reap_leaving() {
    std::erase_if(leaving_, [this](Worker& w) { return release_worker(w); });
}

void Bridge::reap_waiting() {
    std::erase_if(waiting_, [this](Worker& w) {
        if (!has_gone(w)) return false;
        log::error("a worker that waited for a client {}", reap(w));
        return put_off_warm(), true;
    });
}

void Bridge::put_off_warm() {
    using namespace std::chrono_literals;
    warm_pause_ = std::clamp<std::chrono::milliseconds>(2 * warm_pause_, 100ms, 10s);
    warm_again_ = std::chrono::steady_clock::now() + warm_pause_;
}

// The driver starts once, not twice, on the way to the first client: the first worker says what devices there are, and then waits for
// that client. It starts while a child tries its cage; where that finds something missing another one starts, without it. Returns what
// is wrong.
std::string Bridge::start_first(const DeviceChoice& choice) {
    Worker first;
    unsigned tried = 0;  // the measures that it was started with
    const auto start = [&] {
        first_ = true, tried = cage_.order.on;
        const bool started = start_worker(first, {});
        return first_ = false, started;
    };
    const std::string error = plan_cage(choice, start);
    if (first.pid > 0 && (!error.empty() || tried != cage_.order.on)) {
        log::info("the first worker is started anew, without what its cage lacks");
        dismiss(first), leaving_.push_back(std::exchange(first, {}));
    }
    if (!error.empty()) return error;
    if (first.pid <= 0 && !start()) return fmt::format("cannot start a worker: {}", strerror(errno));
    devices_ = receive_devices(first.link, library_, signals_);
    if (devices_.error.empty()) {
        first.devices = devices_seen(devices_, nullptr);
        waiting_.push_back(std::move(first));
        return {};
    }
    constexpr int patience = 1000;  // milliseconds: of one that ends by itself, and has said why or died
    pollfd ended[] = {{first.pidfd, POLLIN, 0}, {signals_, POLLIN, 0}};
    poll(ended, std::size(ended), patience);
    if (ended[0].revents == 0) dismiss(first);
    while (!has_gone(first)) poll(nullptr, 0, 1);
    const std::string end = reap(first);
    return devices_.answered ? devices_.error : fmt::format("{}: its first worker {}", devices_.error, end);
}

// Of the host: its own, and the region's that it keeps for a client.
std::uint64_t Bridge::memory_of(const Worker& worker) {
    const auto [all, resident, shared, code, none, data] = statm_of(worker);
    std::uint64_t bytes = resident - std::min(shared, resident);
    for (const Grants::Run& run : worker.reserved) bytes += run.bytes;
    return bytes;
}

void Bridge::keep_warm() {
    const auto now = std::chrono::steady_clock::now();
    if (warm_.looks_at_memory()) {
        for (Worker& w : waiting_)
            if (w.held == 0 && w.warm()) w.held = memory_of(w);
        if (const auto most = std::ranges::max_element(waiting_, {}, &Worker::held);
            most != waiting_.end() && most->held)
            warm_.note_memory(most->held);
    }
    const unsigned wanted = warm_.wanted(now);
    for (; waiting_.size() > wanted; waiting_.pop_back())
        dismiss(waiting_.back()), leaving_.push_back(std::move(waiting_.back()));
    const auto starts = [](const auto& c) {
        return c && c->worker.pid > 0 && !c->worker.leaving() && !c->worker.warm();
    };
    const auto one_starts = [&] {
        return std::ranges::any_of(clients_, starts) || !std::ranges::all_of(waiting_, &Worker::warm);
    };
    if (std::ranges::any_of(clients_, [](const auto& c) { return c && c->asked; })) return;  // asked.h
    while (waiting_.size() < wanted && !likely_.empty() && now >= warm_again_ && warm_.may_begin(one_starts(), now)) {
        Worker w;
        if (!start_worker(w, likely_)) {
            log::error("cannot start a worker: {}", strerror(errno));
            return put_off_warm();
        }
        waiting_.push_back(std::move(w));
    }
}

}  // namespace barcuda
