// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/bridge/worker_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <utility>

#include "base/log.h"
#include "base/os/process.h"
#include "base/trace.h"
#include "host-bridge/bridge/numbers.h"
#include "host-bridge/cage/users.h"
#include "shm-device/queue/sync.h"
#include "shm-device/rows/listing.h"

namespace barcuda {
namespace {

using State = WorkerProcess::State;

constexpr unsigned bit(State state) { return 1u << static_cast<unsigned>(state); }

struct StateRow {
    const char* name;
    unsigned successors;
};
// A state's name, and the permitted next states. Each may end: a process can die at any time.
constexpr StateRow table[] = {
    {"starting", bit(State::warm) | bit(State::assigned) | bit(State::leaving) | bit(State::ended)},
    {"warm", bit(State::serving) | bit(State::leaving) | bit(State::ended)},
    {"assigned", bit(State::serving) | bit(State::leaving) | bit(State::ended)},
    {"serving", bit(State::leaving) | bit(State::ended)},
    {"leaving", bit(State::ended)},
    {"ended", 0},
};
static_assert(std::size(table) == static_cast<std::size_t>(State::count));

// glibc 2.36 declares pidfd_open without extern "C". The descriptor is closed on exec, as the kernel makes it.
int open_pid(pid_t pid) { return static_cast<int>(syscall(SYS_pidfd_open, pid, 0)); }

std::string describe_status(int status) {
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS)
        return "was killed for a system call that its cage denies (syscalls), in a thread that blocks signals";
    if (WIFSIGNALED(status))
        return fmt::format("was killed by signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)));
    if (WEXITSTATUS(status) == no_descriptors)
        return "could not be given its descriptors: the bridge may have too few files open (ulimit -n)";
    if (WEXITSTATUS(status) == no_namespaces)
        return "could not enter the workers' namespaces or become their user (--no-cage network,ipc,mounts,user)";
    if (WEXITSTATUS(status) == no_group) return "could not enter its control group (--no-cage cgroup)";
    return fmt::format("ended with status {}", WEXITSTATUS(status));
}

// A file in memory for a sheet. Its length is sealed: the bridge reads the file, and a file that is cut short would end
// the bridge.
File make_sheet() {
    File file(memfd_create("barcuda-sheet", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    Sheet empty;
    empty.orders.link = Numbers::of_this_build().of[Numbers::link].newest;
    const bool made = file && write(file.fd(), &empty, sizeof empty) == sizeof empty &&
                      fcntl(file.fd(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0;
    return made ? std::move(file) : File();
}
// A sheet of an earlier link may be shorter. What it lacks reads as zeros, because both end in the same page.
static_assert(sizeof(Sheet) <= BARCUDA_PAGE);
Sheet* map_sheet(const File& file) {
    void* const at = mmap(nullptr, sizeof(Sheet), PROT_READ | PROT_WRITE, MAP_SHARED, file.fd(), 0);
    return at == MAP_FAILED ? nullptr : static_cast<Sheet*>(at);
}

struct Pair {
    File ours, its;
};
Pair take(const int (&files)[2]) { return {File(files[0]), File(files[1])}; }
bool never_waits(const File& file) { return fcntl(file.fd(), F_SETFL, O_NONBLOCK) == 0; }

}  // namespace

void WorkerProcess::UnmapKept::operator()(KeptWorker* record) const { munmap(record, sizeof *record); }
void WorkerProcess::Unmap::operator()(Sheet* sheet) const { munmap(sheet, sizeof *sheet); }

const char* WorkerProcess::name(State state) { return table[static_cast<unsigned>(state)].name; }

bool WorkerProcess::permits(State from, State to) {
    return (table[static_cast<unsigned>(from)].successors & bit(to)) != 0;
}

// The only function that changes the state.
void WorkerProcess::enter(State to) {
    if (!permits(state_, to)) {
        log::critical("{}: a worker that is {} cannot be {}", called_, name(state_), name(to));
        std::abort();
    }
    state_ = to;
    if (to != State::leaving && to != State::ended) return;
    on_end_ = {};
    on_request_ = {};
    on_mapper_ = {};
}

std::unique_ptr<WorkerProcess> WorkerProcess::start(Spawn what, Facts facts) {
    std::unique_ptr<WorkerProcess> worker(new WorkerProcess);
    const auto give_up = [&]() -> std::unique_ptr<WorkerProcess> {
        const int why = errno;
        worker->enter(State::ended);  // there is no process
        worker.reset();
        errno = why;
        return nullptr;
    };
    const File sheet = make_sheet();
    if (!sheet) return give_up();
    worker->sheet_.reset(map_sheet(sheet));
    int pair[2];
    if (!worker->sheet_ || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) return give_up();
    Pair link = take(pair);
    if (!never_waits(link.ours) || pipe2(pair, O_CLOEXEC | O_NONBLOCK) != 0) return give_up();
    Pair errors = take(pair);
    if (pipe2(pair, O_CLOEXEC) != 0) return give_up();
    Pair log = take(pair);
    if (!never_waits(log.ours)) return give_up();
    if (what.cage) {
        worker->order_ = what.cage->order;
        if (what.cage->order.has(cage::Measure::cgroup)) {
            worker->groups_ = what.cage->groups;
            if ((worker->group_ = worker->groups_->make()).empty()) return give_up();
        }
        if (what.cage->order.has(cage::Measure::extents)) worker->mapper_ = cage::Listener::expected();
    }
    what.group = worker->group_;
    const Spawn::Given given[] = {{link.its.fd(), link_fd},
                                  {log.its.fd(), log_fd},
                                  {sheet.fd(), sheet_fd},
                                  {errors.ours.fd(), errors_fd},
                                  {errors.its.fd(), into_errors_fd}};
    what.files.insert(what.files.end(), std::begin(given), std::end(given));
    if (facts.kept && *facts.kept) worker->kept_ = facts.kept;
    what.sibling = static_cast<bool>(*worker->kept_);
    const pid_t pid = spawn(what);
    if (pid < 0) return give_up();
    worker->pid_ = pid;  // whatever fails from here on, it is ended
    const auto end_it = [&](int why) -> std::unique_ptr<WorkerProcess> {
        worker.reset();  // it has nothing yet that takes long to release
        errno = why;
        return nullptr;
    };
    worker->pidfd_ = File(open_pid(pid));
    if (!worker->pidfd_) return end_it(errno);
    worker->wrapped_ = what.wrapped;
    worker->link_ = std::move(link.ours);
    worker->errors_ = std::move(errors.ours);
    worker->log_ = WorkerLog(std::move(log.ours));
    worker->called_ = fmt::format("worker {}", pid);
    worker->may_say_ = facts.may_say;
    worker->text_ = facts.text;
    worker->devices_ = std::move(facts.devices);
    if (*worker->kept_) {
        int error = 0;
        const auto keep = [&](const char* name, int file) {
            if (error == 0) error = worker->kept_->keep(worker->kept_name(name), file);
        };
        keep("link", worker->link_.fd());
        keep("sheet", sheet.fd());
        keep("errors", worker->errors_.fd());
        keep("log", worker->log_.fd());
        worker->record_file_ = File(memfd_create("barcuda-worker", MFD_CLOEXEC));
        if (ftruncate(worker->record_file_.fd(), sizeof(KeptWorker)) == 0) {
            void* const at =
                mmap(nullptr, sizeof(KeptWorker), PROT_READ | PROT_WRITE, MAP_SHARED, worker->record_file_.fd(), 0);
            if (at != MAP_FAILED) worker->record_.reset(static_cast<KeptWorker*>(at));
        }
        worker->write_down();
        if (worker->record_) keep("record", worker->record_file_.fd());  // last: the rest is there
        if (error != 0) return end_it(error);
    }
    return worker;
}

std::string WorkerProcess::kept_name(const char* what) const { return fmt::format("worker.{}.{}", pid_, what); }

void WorkerProcess::write_down() {
    if (!record_) return;
    KeptWorker its;
    its.wrapped = wrapped_;
    its.pid = pid_;
    its.start = start_time_of(static_cast<std::uint32_t>(pid_));
    its.bare = bare_;
    its.has_mapper = mapper_.is_expected() || mapper_.fd() >= 0;
    its.device_count = static_cast<std::uint32_t>(std::min(devices_.size(), std::size(its.devices)));
    std::copy_n(devices_.begin(), its.device_count, its.devices);
    group_.copy(its.group, sizeof its.group - 1);
    its.order = order_;
    *record_ = its;
}

std::unique_ptr<WorkerProcess> WorkerProcess::adopt(pid_t pid, std::uint64_t start, std::string called, Facts facts) {
    std::unique_ptr<WorkerProcess> worker(new WorkerProcess);
    worker->kept_ = facts.kept;
    worker->pid_ = pid;
    const auto give_up = [&]() -> std::unique_ptr<WorkerProcess> {
        worker->enter(State::ended);
        worker->pid_ = -1;  // it is not this object's
        return nullptr;
    };
    const auto take = [&](const char* name) { return facts.kept->take(worker->kept_name(name)); };
    worker->record_file_ = take("record");
    if (!worker->record_file_ || start == 0 || start_time_of(static_cast<std::uint32_t>(pid)) != start)
        return give_up();
    void* const at =
        mmap(nullptr, sizeof(KeptWorker), PROT_READ | PROT_WRITE, MAP_SHARED, worker->record_file_.fd(), 0);
    if (at == MAP_FAILED) return give_up();
    worker->record_.reset(static_cast<KeptWorker*>(at));
    const KeptWorker& its = *worker->record_;
    if (its.form != KeptWorker::form_of_this_build || its.pid != pid || its.start != start) return give_up();
    const File sheet = take("sheet");
    worker->link_ = take("link");
    worker->errors_ = take("errors");
    File log = take("log");
    if (sheet) worker->sheet_.reset(map_sheet(sheet));
    worker->pidfd_ = File(open_pid(pid));
    if (!worker->sheet_ || !worker->link_ || !worker->pidfd_) return give_up();
    const Numbers::Range links = Numbers::of_this_build().of[Numbers::link];
    const std::uint32_t its_link = observe(worker->sheet_->orders.link);
    if (its_link < links.oldest || its_link > links.newest) return give_up();
    worker->log_ = WorkerLog(std::move(log));
    worker->wrapped_ = its.wrapped;
    worker->called_ = std::move(called);
    worker->may_say_ = facts.may_say;
    worker->text_ = facts.text;
    worker->devices_.assign(its.devices, its.devices + std::min<std::size_t>(its.device_count, std::size(its.devices)));
    worker->order_ = its.order;
    worker->bare_ = its.bare;
    if (*its.group) {
        worker->group_ = its.group;
        worker->groups_ = facts.groups ? facts.groups : std::make_shared<cage::Groups>();
    }
    if (its.has_mapper) {
        worker->mapper_ = cage::Listener::expected();
        if (File mapper = take("mapper")) worker->mapper_.meet(std::move(mapper), {});
    }
    worker->enter(State::assigned);
    worker->look();
    // A question that the earlier bridge has taken is asked again when the call that waits for it is interrupted; the
    // kernel starts that call again.
    if (std::exchange(worker->record_->judging, 0)) {
        kill(pid, SIGSTOP);
        kill(pid, SIGCONT);
    }
    return worker;
}

std::vector<pid_t> WorkerProcess::left(const Kept& kept) {
    std::vector<pid_t> all;
    for (const std::string& name : kept.names("worker.")) {
        const pid_t pid = std::atoi(name.c_str() + std::strlen("worker."));
        if (all.empty() || all.back() != pid) all.push_back(pid);
    }
    return all;
}

// A number is not used again while the keeper has not reaped the process. A name may be left of one that it has reaped.
void WorkerProcess::end_left(pid_t pid, const Kept& kept) {
    if (!kept.look(pid)) kill(pid, SIGKILL);
    kept.await(pid);
    trace::complete();
    kept.drop_all(fmt::format("worker.{}.", pid));
}

// A start that fails has no process to end: -1 means all processes to kill().
WorkerProcess::~WorkerProcess() {
    if (!has_ended() && pid_ > 0) {
        kill(pid_, SIGKILL);
        kept_->await(pid_);
        trace::complete();
    }
    if (pid_ > 0 && *kept_) kept_->drop_all(fmt::format("worker.{}.", pid_));
    if (!group_.empty()) groups_->remove(group_);
}

void WorkerProcess::assign(std::string called) {
    was_warm_ = state_ == State::warm;
    enter(was_warm_ ? State::serving : State::assigned);
    called_ = std::move(called);
}

void WorkerProcess::look() {
    if (observe(sheet_->bare) == 0) return;
    if (state_ == State::starting) enter(State::warm);
    if (state_ == State::assigned) enter(State::serving);
}

void WorkerProcess::dismiss() {
    if (is_leaving() || has_ended()) return;
    enter(State::leaving);
    dismissed_ = Clock::now();
    if (wrapped_) shutdown(link_.fd(), SHUT_WR);
    else kill(pid_, SIGKILL);
}

// With a wrapper: the worker has released its link, too. (A profiler's daemon may have inherited it, and live on: a
// worker ends within ten seconds of its dismissal.)
bool WorkerProcess::has_gone() const {
    constexpr std::chrono::seconds at_last{15};
    if (has_ended()) return true;
    if (!kept_->look(pid_)) return false;
    if (!wrapped_) return true;
    pollfd link{link_.fd(), 0, 0};
    poll(&link, 1, 0);
    return (link.revents & POLLHUP) || (is_leaving() && Clock::now() - dismissed_ > at_last);
}

std::string WorkerProcess::reap() {
    std::string end = describe_end(kept_->await(pid_));
    trace::complete();
    if (!group_.empty()) groups_->remove(std::exchange(group_, {}));
    const auto now = Clock::now();
    const auto limits = log_limits();
    on_log_ = {};
    log_.end(limits, now, say());
    char text[4096];
    int parts = 16;  // a pipe holds no more; a child of the worker may continue to write
    // A worker has this open file, too, and may have let it wait (where no cage has kept it from that).
    const bool goes_on = never_waits(errors_);
    for (ssize_t n; goes_on && parts-- > 0 && (n = read(errors_.fd(), text, sizeof text)) > 0;)
        log_.add({text, static_cast<std::size_t>(n)}, limits, now, say());
    log_.end(limits, now, say());
    // Even if the guest has said that its session is over: it writes that itself.
    if (observe(sheet_->denied) != Sheet::nothing) log::error("{} {}", called_, end);
    enter(State::ended);
    return end;
}

bool WorkerProcess::release() {
    if (has_ended()) return true;
    dismiss();
    if (!has_gone()) return false;
    reap();
    return true;
}

bool WorkerProcess::is_ending() const {
    constexpr unsigned long exiting = 4;  // PF_EXITING, of /proc/PID/stat's ninth field
    std::string line;
    std::ifstream stat(fmt::format("/proc/{}/stat", pid_));
    if (!stat) return errno == ENOENT;  // where this process has no descriptor left, the other one may be well
    std::getline(stat, line);
    std::istringstream fields(line.substr(std::min(line.size(), line.rfind(')') + 1)));
    std::string state;
    unsigned long flags = exiting;  // nothing to read: the process has ended
    long number = 0;
    fields >> state >> number >> number >> number >> number >> number >> flags;
    return (flags & exiting) != 0;
}

// From the notes in its sheet, the status of its process, and whether it was too large.
std::string WorkerProcess::describe_end(int status) const {
    const std::uint32_t denied = observe(sheet_->denied), command = observe(sheet_->command);
    const bool too_large = !group_.empty() && WIFSIGNALED(status) && groups_->was_too_large(group_);
    return (denied != Sheet::nothing ? cage::denied(denied)
            : too_large
                ? "was killed because it took more of the host's memory than its client may have (worker-memory)"
                : describe_status(status)) +
           (command < row_texts().size() ? fmt::format(" in {}", row_texts()[command].name) : "");
}

const char* WorkerProcess::meet_mapper(File listener, std::span<const int> others) {
    const int its = listener.fd();
    const char* const why = mapper_.meet(std::move(listener), others);
    return !why && kept_->keep(kept_name("mapper"), its) != 0 ? "the keeper does not keep the mapper" : why;
}

void WorkerProcess::answer_mapper(short events, std::uint64_t base, const cage::MayMap& may) {
    if (record_) publish(record_->judging, 1u);
    const bool goes_on = mapper_.answer(events, base, may);
    if (record_) publish(record_->judging, 0u);
    if (goes_on) return;
    on_mapper_ = {};
    mapper_.close();
}

bool WorkerProcess::hear_log(Loop& loop) {
    on_log_ = loop.watch(log_.fd(), Loop::Rank::log, [this](short) {
        const auto now = Clock::now();
        log_.read_on(log_limits(), now, say());
        if (log_.fd() < 0) on_log_ = {};
        else if (log_.quiet_until() > now) on_log_.rest_until(log_.quiet_until());
    });
    return static_cast<bool>(on_log_);
}

bool WorkerProcess::hear_end(Loop& loop, std::function<void()> f) {
    on_end_ = {};  // a descriptor has one watch
    on_end_ = loop.watch(pidfd_.fd(), Loop::Rank::end, [f = std::move(f)](short) { f(); });
    return static_cast<bool>(on_end_);
}

bool WorkerProcess::hear_requests(Loop& loop, std::function<void()> f) {
    on_request_ = loop.watch(link_.fd(), Loop::Rank::request, [f = std::move(f)](short events) {
        if (events & POLLIN) f();
    });
    return static_cast<bool>(on_request_);
}

bool WorkerProcess::hear_mapper(Loop& loop, Loop::Handle f) {
    on_mapper_ = loop.watch(mapper_.fd(), Loop::Rank::mapping, std::move(f));
    return static_cast<bool>(on_mapper_);
}

WorkerLog::Limits WorkerProcess::log_limits() const {
    if (!text_) return {may_say_, 0, nullptr};
    return {may_say_, text_->a_second ? *text_->a_second : 0, &text_->bucket};
}

WorkerLog::Say WorkerProcess::say() const {
    return
        [this](log::Level level, std::string_view text) { log::pass_on(level, fmt::format("{}: {}", called_, text)); };
}

std::uint64_t WorkerProcess::reserved_bytes() const {
    std::uint64_t sum = 0;
    for (const Grants::Run& run : reserved) sum += run.bytes;
    return sum;
}

// In bytes: all, resident, shared, code, 0, data.
std::array<std::uint64_t, 6> WorkerProcess::statm() const {
    std::array<std::uint64_t, 6> bytes{};
    std::ifstream in(fmt::format("/proc/{}/statm", pid_));
    for (auto& n : bytes) {
        in >> n;
        n *= static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
    }
    return bytes;
}

std::uint64_t WorkerProcess::memory() const {
    const auto [all, resident, shared, code, none, data] = statm();
    return resident - std::min(shared, resident) + reserved_bytes();
}

std::uint64_t WorkerProcess::own_data() const {
    const std::uint64_t now = statm()[5], bare = observe(sheet_->bare);
    return bare == 0 || now < bare ? 0 : now - bare;
}

bool WorkerProcess::limit_data(std::uint64_t bytes) {
    const std::uint64_t bare = observe(sheet_->bare);
    if (bare == 0 || wrapped_) return true;
    const rlim_t now = bytes == 0 || bytes > ~std::uint64_t{0} - bare ? RLIM_INFINITY : bare + bytes;
    return cage::limit_data(pid_, order_, now);
}

bool WorkerProcess::limit_group(std::uint64_t bytes) {
    if (group_.empty()) return true;
    if (bare_ == 0) {
        bare_ = groups_->used(group_);
        if (record_) record_->bare = bare_;
    }
    return groups_->bound(group_, bytes == 0 ? 0 : bare_ + bytes);
}

}  // namespace barcuda
