// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/keeper/keeper.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string_view>
#include <utility>

#include "base/log.h"
#include "shm-device/layout.h"

namespace barcuda {
namespace {

using keeping::Form;
using State = Keeper::State;

constexpr unsigned bit(State state) { return 1u << static_cast<unsigned>(state); }

struct Transitions {
    const char* name;
    unsigned successors;
};
// A state's name, and the permitted next states. Each may end: the keeper can be told to end at any time.
constexpr Transitions table[] = {
    {"starting", bit(State::serving) | bit(State::backing_off) | bit(State::ending)},
    {"serving", bit(State::backing_off) | bit(State::replacing) | bit(State::ending)},
    {"backing_off", bit(State::starting) | bit(State::ending)},
    {"replacing", bit(State::trying) | bit(State::ending)},
    {"trying", bit(State::serving) | bit(State::backing_off) | bit(State::ending)},
    {"ending", 0},
};
static_assert(std::size(table) == static_cast<std::size_t>(State::count));

constexpr const char* region_name = "region";
constexpr unsigned most_deaths = 5;
constexpr std::chrono::milliseconds beats_every{200}, first_pause{100}, long_service{10'000};
// A bridge tells each second that it lives. The keeper looks as often, so a time in which both stand still counts as
// one look.
constexpr std::chrono::milliseconds looks_every{1000};
constexpr unsigned most_unheard = 10;

sigset_t own_signals() {
    sigset_t signals;
    sigemptyset(&signals);
    for (const int s : {SIGINT, SIGTERM, SIGHUP, SIGCHLD}) sigaddset(&signals, s);
    return signals;
}

// As many descriptors as there may be. Bridges, and their workers, get what this process was given.
rlimit raise_files() {
    rlimit given{};
    getrlimit(RLIMIT_NOFILE, &given);
    rlimit most = given;
    most.rlim_cur = most.rlim_max;
    setrlimit(RLIMIT_NOFILE, &most);
    return given;
}
const rlimit& given_files() {
    static const rlimit given = raise_files();
    return given;
}

// Root's keeper may not signal a bridge that has become another user: the kernel does, when the keeper writes to this
// pipe. The bridge's end is open as long as the bridge lives, whatever it executes.
void get_signals_by(int pipe, int signal) {
    fcntl(pipe, F_SETOWN, getpid());
    fcntl(pipe, F_SETSIG, signal);
    fcntl(pipe, F_SETFL, O_ASYNC | O_NONBLOCK);
}

bool is_debugged(pid_t process) {
    std::ifstream status(fmt::format("/proc/{}/status", process));
    constexpr std::string_view tracer = "TracerPid:";
    for (std::string line; std::getline(status, line);)
        if (line.starts_with(tracer)) return std::atoi(line.c_str() + tracer.size()) != 0;
    return false;
}

}  // namespace

Keeper::Keeper(int ready, int served, std::vector<std::string> command)
    : ready_(ready), served_(served), command_(std::move(command)), upgrade_(command_) {}

const char* Keeper::name(State state) { return table[static_cast<unsigned>(state)].name; }

bool Keeper::permits(State from, State to) { return (table[static_cast<unsigned>(from)].successors & bit(to)) != 0; }

// The only function that changes the state.
void Keeper::enter(State to) {
    if (to == state_) return;
    if (!permits(state_, to)) {
        log::critical("a keeper that is {} cannot be {}", name(state_), name(to));
        std::abort();
    }
    log::debug("keeper: {} -> {}", name(state_), name(to));
    state_ = to;
}

int Keeper::run(File& link) {
    given_files();
    const sigset_t signals = own_signals();
    sigprocmask(SIG_BLOCK, &signals, nullptr);
    signals_ = File(signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
    if (start(link)) return 0;
    while (bridge_ > 0 || start_is_due() || state_ == State::backing_off) {
        pollfd heard[] = {{signals_.fd(), POLLIN, 0}, {link_.fd(), POLLIN, 0}};
        poll(heard, std::size(heard), patience());
        if (heard[1].revents & POLLIN) hear_bridge();
        hear_signals();
        watch();
        if (state_ != State::serving && served_once_) beat();
        if (start_is_due() && start(link)) return 0;
    }
    return status_;
}

bool Keeper::start_is_due() const {
    return (state_ == State::backing_off && Clock::now() >= next_start_) || (state_ == State::replacing && bridge_ < 0);
}

// What time brings: a check or a new bridge that is late, a bridge that no longer tells that it lives.
void Keeper::watch() {
    const auto now = Clock::now();
    if (state_ == State::serving && upgrade_.look()) {
        log::info("upgrade: the bridge of another file takes this one's place: {}", upgrade_.said());
        enter(State::replacing);
        end_bridge();
    }
    if (state_ == State::trying && upgrade_.is_late(now)) end_bridge();
    if (state_ != State::serving || now < next_look_) return;
    next_look_ = now + looks_every;
    if (unheard_ > 1) beat();  // clients wait for the next bridge
    if (++unheard_ <= most_unheard || hung_ || is_debugged(bridge_)) return;
    hung_ = true;
    log::error("the bridge has not said for {} s that it lives: it is ended", most_unheard);
    end_bridge();
}

int Keeper::patience() const {
    if (state_ == State::serving) {
        const auto next = upgrade_.busy() ? std::min(next_look_, upgrade_.deadline()) : next_look_;
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - Clock::now());
        return static_cast<int>(std::max(left, std::chrono::milliseconds(0)).count());
    }
    if (!served_once_ && state_ != State::backing_off) return -1;
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(next_start_ - Clock::now());
    const auto until = state_ == State::backing_off ? std::max(left, std::chrono::milliseconds(0)) : beats_every;
    return static_cast<int>(std::min(until, beats_every).count());
}

// Clients give up a bridge whose heartbeat stops for seconds. By a system call: a file that was cut short would end a
// process that touches its mapping.
void Keeper::beat() {
    const auto region = kept_.find(region_name);
    if (region == kept_.end()) return;
    constexpr off_t place = offsetof(barcuda_header, heartbeat);
    barcuda_u64 now = 0;
    if (pread(region->second.fd(), &now, sizeof now, place) != sizeof now) return;
    now = beats_ = std::max<std::uint64_t>(now, beats_) + 1;
    if (pwrite(region->second.fd(), &now, sizeof now, place) != sizeof now) return;
}

// True: this is the bridge.
bool Keeper::start(File& link) {
    int ends[2], stop[2], end[2];
    if (state_ == State::replacing) {
        upgrade_.old_one_ended();
        enter(State::trying);
    } else {
        enter(State::starting);
    }
    const auto give_up = [this] { return cannot_start(errno); };
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return give_up();
    link_ = File(ends[0]);
    File its(ends[1]);
    if (pipe2(stop, O_CLOEXEC | O_NONBLOCK) != 0) return give_up();
    File stops(stop[0]);
    stop_ = File(stop[1]);
    if (pipe2(end, O_CLOEXEC | O_NONBLOCK) != 0) return give_up();
    File is_ended(end[0]);
    end_ = File(end[1]);
    fcntl(link_.fd(), F_SETFL, O_NONBLOCK);  // a bridge that reads no answers does not stop its keeper
    hung_ = false;
    const pid_t keeper = getpid();
    bridge_ = fork();
    if (bridge_ < 0) return give_up();
    if (bridge_ > 0) return false;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != keeper) _exit(1);
    begin_bridge(link, its, stops.release(), is_ended.release());
    return true;
}

// Clients wait for a bridge, so that is a death like others. False: this is the keeper.
bool Keeper::cannot_start(int error) {
    log::critical("cannot start the bridge: {}", strerror(error));
    link_ = File();
    status_ = 1;
    if (state_ == State::trying) upgrade_.not_started(error);
    ++deaths_;
    if (!has_died()) enter(State::ending);
    return false;
}

// The next one starts after a pause. False: there is none, since there were too many, or none has served.
bool Keeper::has_died() {
    if (!served_once_ || deaths_ >= most_deaths) return false;
    enter(State::backing_off);
    next_start_ = Clock::now() + (deaths_ == 0 ? std::chrono::milliseconds(0) : first_pause * (1 << deaths_));
    return true;
}

// In the new process. Returns if the bridge is this program.
void Keeper::begin_bridge(File& link, File& its, int stops, int ends) {
    const bool is_new = state_ == State::trying;
    const int file = is_new ? upgrade_.program() : file_.fd();
    get_signals_by(stops, SIGTERM);
    get_signals_by(ends, SIGKILL);
    setrlimit(RLIMIT_NOFILE, &given_files());
    sigset_t signals;  // the others stay blocked: the bridge reads them
    sigemptyset(&signals);
    sigaddset(&signals, SIGCHLD);
    sigprocmask(SIG_UNBLOCK, &signals, nullptr);
    if (file >= 0) {
        std::vector<std::string> command = command_;
        command.insert(command.end(), {"--keeper", std::to_string(its.fd())});
        if (is_new) command.insert(command.end(), {"--trial", std::to_string(upgrade_.text())});
        for (const int passed_on : {its.fd(), stops, ends, is_new ? upgrade_.text() : its.fd()})
            fcntl(passed_on, F_SETFD, 0);
        become_program(file, std::move(command));
        log::critical("cannot execute the bridge's file: {}", strerror(errno));
        _exit(1);
    }
    kept_.clear();
    link_ = File();
    signals_ = File();
    stop_ = File();
    end_ = File();
    link = std::move(its);
}

void Keeper::hear_signals() {
    for (signalfd_siginfo heard; read(signals_.fd(), &heard, sizeof heard) == sizeof heard;) {
        if (heard.ssi_signo != SIGCHLD) {
            end_by(static_cast<int>(heard.ssi_signo));
            continue;
        }
        int status = 0;
        if (bridge_ > 0 && waitpid(bridge_, &status, WNOHANG) == bridge_) bridge_ended(status);
    }
}

// The bridge ends by itself then. Without one, workers end with this process.
void Keeper::end_by(int signal) {
    if (bridge_ > 0) {
        if (kill(bridge_, signal) != 0 && write(stop_.fd(), "", 1) < 0) log::error("cannot stop the bridge");
        kill(bridge_, SIGCONT);
    } else {
        status_ = 0;
    }
    enter(State::ending);
}

void Keeper::bridge_ended(int status) {
    bridge_ = -1;
    link_ = File();
    if (state_ == State::replacing) return;
    if (state_ == State::trying) return new_one_ended(status);
    const bool exited = WIFEXITED(status);
    status_ = exited ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    // A bridge that ends by itself ends its clients, unless it could not go on with those of an earlier one.
    const bool failed_to_go_on = state_ == State::starting && served_once_ && status_ != 0;
    if (state_ == State::ending || (exited && !failed_to_go_on)) return enter(State::ending);
    // A bridge that is killed while it serves is no sign of a fault, and those before it did not keep it from serving.
    // One that crashes soon after its start may do so again.
    const bool was_killed = !exited && WTERMSIG(status) == SIGKILL && state_ == State::serving && !hung_;
    const bool served_long = state_ == State::serving && Clock::now() - ready_at_ > long_service;
    deaths_ = served_long || was_killed ? 0 : deaths_ + 1;
    const std::string how =
        exited ? fmt::format("ended with status {}", status_)
               : fmt::format("was killed by signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)));
    if (has_died()) return log::error("the bridge {}; another one goes on with its clients", how);
    log::critical(
        "the bridge {} {}", how,
        served_once_ ? "too often before it could go on with its clients; they end" : "before it could serve");
    enter(State::ending);
}

// An upgrade has failed. The bridge of the earlier file goes on with its clients.
void Keeper::new_one_ended(int status) {
    upgrade_.ended(status);
    log::error("upgrade: the new bridge does not serve: {}; the earlier one goes on", upgrade_.said());
    enter(State::backing_off);
    next_start_ = Clock::now();
}

void Keeper::hear_bridge() {
    char message[sizeof(keeping::Request) + 1];
    File file;
    const ssize_t n = receive_message(link_.fd(), message, sizeof message, file, MSG_DONTWAIT | MSG_TRUNC);
    if (n < 0) return;
    if (n == 0) {  // it ends
        link_ = File();
        return;
    }
    unheard_ = 0;
    const auto length = static_cast<std::size_t>(n);
    const auto request = length <= sizeof message ? keeping::Request::read({message, length}) : std::nullopt;
    if (!request) {
        log::critical("the bridge sent its keeper something that no bridge of this version sends; it is ended");
        enter(State::ending);
        return end_bridge();
    }
    if (request->form == static_cast<std::uint32_t>(Form::alive)) return;
    int with = -1;
    const keeping::Answer answer = serve(*request, std::move(file), with);
    if (!send_message(link_.fd(), &answer, sizeof answer, with)) end_bridge();
}

// A bridge whose link is closed would end by itself, as if it had been stopped: it is killed first.
void Keeper::end_bridge() {
    if (bridge_ > 0 && kill(bridge_, SIGKILL) != 0 && write(end_.fd(), "", 1) < 0) log::error("cannot end the bridge");
    link_ = File();
}

keeping::Answer Keeper::serve(const keeping::Request& request, File file, int& with) {
    keeping::Answer answer{.form = request.form};
    const auto found = kept_.find(request.name_text());
    const Form form = static_cast<Form>(request.form);
    switch (form) {
        case Form::keep:
            if (!file) answer.error = EBADF;
            else if (found != kept_.end()) found->second = std::move(file);
            else if (kept_.size() >= keeping::most_kept) answer.error = ENOSPC;
            else kept_.emplace(request.name_text(), std::move(file));
            break;
        case Form::drop:
            if (found != kept_.end()) kept_.erase(found);
            break;
        case Form::take:
            if (found == kept_.end()) answer.error = ENOENT;
            else with = found->second.fd();
            break;
        case Form::list: {
            const auto next = kept_.upper_bound(request.name_text());
            if (next == kept_.end()) answer.error = ENOENT;
            else next->first.copy(answer.name, keeping::longest_name);
            break;
        }
        case Form::reap:
        case Form::look: {
            siginfo_t end{};
            constexpr int only_look = WEXITED | WNOHANG | WNOWAIT;
            int status = 0;
            if (request.process == bridge_ || request.process == getpid()) answer.error = ECHILD;
            else if (waitid(P_PID, static_cast<id_t>(request.process), &end, only_look) != 0) answer.error = errno;
            else if (end.si_pid == 0) answer.error = EAGAIN;
            else if (form == Form::reap && waitpid(request.process, &status, WNOHANG) == request.process)
                answer.status = status;
            break;
        }
        case Form::ready:
            if (state_ == State::trying) {
                upgrade_.ready();
                file_ = upgrade_.take_program();
                deaths_ = 0;
                log::info("upgrade: the bridge of the new file serves");
            }
            if (state_ != State::ending) enter(State::serving);  // it was told to end before it could say this
            next_look_ = Clock::now() + looks_every;
            served_once_ = true;
            ready_at_ = Clock::now();
            if (ready_ >= 0) close(std::exchange(ready_, -1));
            reap_strangers();
            break;
        case Form::done:
            enter(State::ending);
            if (served_ >= 0) close(std::exchange(served_, -1));
            break;
        case Form::alive: break;
        case Form::check:
        case Form::upgrade: {
            const Upgrade::Order order{form == Form::check, request.name_text(),
                                       std::chrono::milliseconds(request.milliseconds)};
            answer.error = state_ == State::serving ? upgrade_.begin(order, std::move(file)) : EBUSY;
            answer.attempt = upgrade_.attempt();
            break;
        }
        case Form::progress:
            answer.status = static_cast<std::int32_t>(upgrade_.step());
            answer.attempt = upgrade_.attempt();
            with = upgrade_.text();
            break;
        case Form::count: break;
    }
    return answer;
}

// Children that a killed bridge had started and not told of.
void Keeper::reap_strangers() {
    std::ifstream children(fmt::format("/proc/self/task/{}/children", getpid()));
    for (pid_t child = 0; children >> child;) {
        const std::string its = fmt::format("worker.{}.", child);
        const auto first = kept_.lower_bound(its);
        if (child != bridge_ && (first == kept_.end() || !first->first.starts_with(its)))
            waitpid(child, nullptr, WNOHANG);
    }
}

}  // namespace barcuda
