// SPDX-License-Identifier: Apache-2.0
// plan.cc: decides which measures apply: those of the table, without those that the operator switches off, those that a
// tool around the worker cannot bear, and those that this kernel or this user cannot take. The last are found by trying
// them in a child process.
#include <fcntl.h>
#include <fmt/format.h>
#include <grp.h>
#include <pwd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <sstream>

#include "base/log.h"
#include "base/message.h"
#include "host-bridge/between/link.h"
#include "host-bridge/cage/cgroup.h"
#include "host-bridge/cage/mapper.h"
#include "host-bridge/cage/measures.h"
#include "host-bridge/cage/users.h"

extern char** environ;

namespace barcuda::cage {
namespace {

#ifdef BARCUDA_SANITIZED
constexpr bool sanitized = true;
#else
constexpr bool sanitized = false;
#endif

unsigned number(Measure m) { return static_cast<unsigned>(m); }

// The one list of variables that a worker inherits: for its driver, and for its log. A name that ends with * is a
// prefix.
constexpr const char* read_by_drivers[] = {
    "CUDA_*",          "CU_*",   "NVIDIA_*", "BARCUDA_*", "JOURNAL_STREAM", "OMP_*", "OPENBLAS_*",
    "LD_LIBRARY_PATH", "PATH",   "HOME",     "LANG",      "LC_*",           "TZ",    "TMPDIR",
    "ASAN_*",          "LSAN_*", "TSAN_*",   "UBSAN_*",   "MALLOC_*"};

bool read_by_a_driver(const char* variable) {
    for (const char* name : read_by_drivers) {
        const std::size_t length = std::strlen(name);
        if (name[length - 1] == '*' ? std::strncmp(variable, name, length - 1) == 0
                                    : std::strncmp(variable, name, length) == 0 && variable[length] == '=')
            return true;
    }
    return false;
}

constexpr auto every = "all";  // in a list of measures

std::vector<std::string> words(const std::string& list) {
    std::vector<std::string> all;
    std::istringstream in(list);
    for (std::string word; std::getline(in, word, ',');)
        if (!word.empty()) all.push_back(word);
    return all;
}

bool names(const std::vector<std::string>& list, const char* name) {
    return std::ranges::find(list, name) != list.end();
}

void leave_out(Plan& plan, Measure m, const std::string& why) {
    if (!plan.order.has(m)) return;
    plan.order.drop(m);
    plan.why[number(m)] = why;
    if (plan.named[number(m)] && plan.error.empty())
        plan.error =
            fmt::format("{}: {}", m == Measure::user ? "--worker-user" : "--cage " + std::string(about(m).name), why);
}

std::string cannot(const std::string& why) { return "not available here: " + why; }
std::string cannot(int error) { return cannot(strerror(error)); }

// A process is in one group, however many plans it makes.
std::shared_ptr<Groups> groups() {
    static std::weak_ptr<Groups> made;
    std::shared_ptr<Groups> all = made.lock();
    if (!all) made = all = std::make_shared<Groups>();
    return all;
}

// The same for its workers' user.
std::shared_ptr<const OwnUser> own_user() {
    static std::weak_ptr<const OwnUser> taken;
    std::shared_ptr<const OwnUser> one = taken.lock();
    if (!one) taken = one = std::make_shared<const OwnUser>();
    return one;
}

// A worker that may open the region, or make a system call that fetches descriptors, gets one in spite of 'extents'.
void leave_out_what_leans_on_others(Plan& plan) {
    std::vector<Measure> needed = {Measure::syscalls};
    // with the software GPU a worker opens no file at all
    if (!plan.order.software) needed.push_back(Measure::files);
    for (const Measure m : needed)
        if (!plan.order.has(m)) leave_out(plan, Measure::extents, fmt::format("it needs '{}'", about(m).name));
    // A filter also removes the right to gain privileges.
    if (!plan.order.has(Measure::privileges)) leave_out(plan, Measure::bridge, "it needs 'privileges'");
}

// Whether the process, in its cage, can open the region again. Landlock knows no path of a file that is in memory only.
bool can_reopen(int region) {
    return static_cast<bool>(File(open(fmt::format("/proc/self/fd/{}", region).c_str(), O_RDONLY | O_CLOEXEC)));
}

// Whether the worker's user can run this program, and use its driver and its devices.
constexpr int unusable = -2;
bool can_use(const Order& order, const std::string& library) {
    return access("/proc/self/exe", R_OK | X_OK) == 0 &&
           (library.find('/') == library.npos || access(library.c_str(), F_OK) != 0 ||
            access(library.c_str(), R_OK) == 0) &&
           (order.software || access("/dev/nvidiactl", F_OK) != 0 || access("/dev/nvidiactl", R_OK | W_OK) == 0);
}

// In the child process: the same steps as in the worker (worker.cc), but no bridge answers. Returns 0, or why not.
constexpr int reopened = -1;
int keep_to_extents(const Order& order, int region, Mapper& mapper) {
    if (!order.software && region >= 0 && can_reopen(region)) return reopened;
    constexpr auto moved = [](int fd) { return fcntl(fd, F_DUPFD, 16); };  // out of the way of both numbers
    int link[2];
    if (region < 0) region = memfd_create("barcuda-cage", MFD_CLOEXEC);
    if (region < 0 || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, link) != 0) return errno;
    const int copy = moved(region), end = moved(link[1]);
    if (moved(link[0]) < 0 || dup2(copy, region_fd) < 0 || dup2(end, link_fd) < 0) return errno;
    return mapper.take() ? 0 : errno;
}

Failure find_user(Order& order, const std::string& name) {
    const passwd* const user = getpwnam(name.c_str());
    if (!user) return fmt::format("--worker-user {}: there is no such user", name);
    if (geteuid() != 0) return fmt::format("--worker-user {}: only root can start workers as another user", name);
    if (user->pw_uid == 0) return fmt::format("--worker-user {}: that is root", name);
    int count = static_cast<int>(order.groups.size());
    if (getgrouplist(name.c_str(), user->pw_gid, order.groups.data(), &count) < 0)
        return fmt::format("--worker-user {}: it is in more than {} groups", name, order.groups.size());
    order.user = user->pw_uid;
    order.group_count = static_cast<unsigned>(count);
    return {};
}

// Takes each measure as a worker does, one after the other. Those that fail are left out, as they will be in a worker.
void attempt(Plan& plan, const std::string& library, int region, const std::function<void(const Plan&)>& meanwhile) {
    auto* const failed = static_cast<int*>(
        mmap(nullptr, measures * sizeof(int), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    const pid_t child = failed == MAP_FAILED ? -1 : fork();
    if (child == 0) {
        join(Plan(plan), [&](Measure m) {
            failed[number(m)] = errno ? errno : EPERM;
            plan.order.drop(m);
        });
        prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);  // as after exec: a process of another user is not dumpable
        if (plan.order.has(Measure::user) && !can_use(plan.order, library)) {
            failed[number(Measure::user)] = unusable;
            plan.order.drop(Measure::user);
        }
        for (unsigned i = 0; i < measures; ++i) {
            const auto m = static_cast<Measure>(i);
            if (!plan.order.has(m) || row(m).take(plan.order, library)) continue;
            failed[i] = errno ? errno : EPERM;
            plan.order.drop(m);
        }
        leave_out_what_leans_on_others(plan);
        if (close_bridge(plan)) failed[number(Measure::bridge)] = ENOSYS;
        auto& mapper = *new Mapper;
        int& alone = failed[number(Measure::extents)];
        if (plan.order.has(Measure::extents) && (alone = keep_to_extents(plan.order, region, mapper)) != 0)
            plan.order.drop(Measure::extents);
        if (close(plan.order, nullptr)) failed[number(Measure::syscalls)] = ENOSYS;
        else if (plan.order.has(Measure::extents) && !mapper.confine()) alone = errno;
        _exit(0);
    }
    int status = 0;
    if (child > 0 && meanwhile) meanwhile(plan);
    if (child > 0) waitpid(child, &status, 0);
    for (unsigned i = 0; child > 0 && i < measures; ++i)
        if (failed[i])
            leave_out(plan, static_cast<Measure>(i),
                      failed[i] == reopened
                          ? "workers could open the region again: it is a memfd, or in a folder that they may read"
                      : failed[i] == unusable
                          ? cannot("another user could not use the program, its driver or the GPU's devices")
                          : cannot(failed[i]));
    leave_out_what_leans_on_others(plan);
    if (child > 0 && plan.order.record && failed[number(Measure::syscalls)])
        plan.error =
            "--record-calls: this kernel does not report system calls (seccomp's user notification, Linux 5.7)";
    if (failed != MAP_FAILED) munmap(failed, measures * sizeof(int));
    if (child < 0 || status != 0) plan.error = "cannot try the workers' cage in a child process";
}

}  // namespace

Failure check_names(const std::string& names) {
    for (const std::string& word : words(names)) {
        bool known = false;
        std::string all;
        for (unsigned i = 0; i < measures; ++i) {
            const char* const name = about(static_cast<Measure>(i)).name;
            known = known || word == name;
            all += (i ? ", " : "") + std::string(name);
        }
        if (!known && word != every) return fmt::format("the cage has no '{}'; its measures: {}", word, all);
    }
    return {};
}

Plan decide(const Wish& wish) {
    Plan p;
    p.order.software = wish.software;
    p.order.record = wish.record;
    p.order.on = (1u << measures) - 1;
    for (const std::string& list : {wish.without, wish.with})
        if (const Failure failure = check_names(list)) {
            p.error = failure.text();
            return p;
        }
    if (const Failure failure = allow_calls(wish.calls, p.order)) {
        p.error = "--allow-call: " + failure.text();
        return p;
    }
    const auto without = words(wish.without), with = words(wish.with);
    for (unsigned i = 0; i < measures; ++i) {
        const auto m = static_cast<Measure>(i);
        const char* const name = about(m).name;
        p.named[i] = names(with, name) || (m == Measure::user && !wish.user.empty());
        if (p.named[i] || names(with, every)) continue;
        p.switched[i] = names(without, name) || names(without, every);
        if (p.switched[i]) leave_out(p, m, "switched off (--no-cage)");
    }
    p.bridge_keeps_dumps = p.switched[number(Measure::dumpable)];
    const bool could = geteuid() == 0 || (wish.own && wish.own->space() >= 0);
    if (wish.user.empty() && !could)
        leave_out(p, Measure::user,
                  wish.own ? cannot(wish.own->error()) : "a bridge that root has not started has only one user");
    if (wish.user.empty()) p.own = wish.own;
    else if (const Failure failure = find_user(p.order, wish.user)) {
        p.error = failure.text();
        return p;
    }
    // a tool traces the worker, uses sockets, and writes its report into the folder where it was started
    if (wish.wrapped)
        for (const Measure m : {Measure::environment, Measure::folder, Measure::descriptors, Measure::cgroup,
                                Measure::network, Measure::ipc, Measure::mounts, Measure::files, Measure::user,
                                Measure::capabilities, Measure::dumpable, Measure::syscalls, Measure::bridge})
            leave_out(p, m, "a tool runs around the worker (--worker-wrapper)");
    constexpr auto writes_a_trace = "BARCUDA_TRACE: the worker writes that file";
    if (getenv("BARCUDA_TRACE")) leave_out(p, Measure::mounts, writes_a_trace);
    if (getenv("BARCUDA_TRACE") && wish.user.empty()) leave_out(p, Measure::user, writes_a_trace);
    for (const Measure m : {Measure::files, Measure::syscalls}) {
        if (getenv("BARCUDA_TRACE") && (wish.software || m == Measure::files)) leave_out(p, m, writes_a_trace);
        if (sanitized) leave_out(p, m, "this build's sanitizers open files");
    }
    if (sanitized)
        for (const Measure m : {Measure::dumpable, Measure::bridge})
            leave_out(p, m, "this build's sanitizers trace a process at its end");
    if (wish.record) leave_out(p, Measure::syscalls, "they are recorded (--record-calls)");
    leave_out_what_leans_on_others(p);
    return p;
}

Plan plan(const Wish& wish, const std::string& library, int region, const std::function<void(const Plan&)>& meanwhile) {
    Plan p = decide(wish);
    if (p.error.empty() && p.order.has(Measure::user) && wish.user.empty()) {
        if (!p.own) p.own = own_user();
        p.order.user = p.own->number();
        if (p.order.user) give_groups(p.order);
        else leave_out(p, Measure::user, cannot(p.own->error()));
    }
    const int users = p.order.has(Measure::user) && p.own ? p.own->space() : -1;
    if (p.error.empty() && (users >= 0 || Namespaces::any_in(p.order))) {
        p.namespaces = std::make_shared<Namespaces>(p.order, library, users);
        for (unsigned i = 0; i < measures; ++i)
            if (const int error = p.namespaces->error(static_cast<Measure>(i)))
                leave_out(p, static_cast<Measure>(i), cannot(error));
    }
    if (p.error.empty() && p.order.has(Measure::cgroup)) {
        p.groups = groups();
        if (!p.groups->error().empty()) leave_out(p, Measure::cgroup, cannot(p.groups->error()));
    }
    if (p.error.empty()) attempt(p, library, region, meanwhile);
    return p;
}

bool join(const Plan& plan, const std::function<void(Measure)>& failed) {
    if (plan.namespaces && !plan.namespaces->join(plan.order, failed) && !failed) return false;
    if (!plan.order.has(Measure::user) || become_user(plan.order)) return true;
    if (failed) failed(Measure::user);
    return false;
}

// A measure that was switched off, or that should be here and is not, is a warning of its own. The others have a line
// together.
void report(const Plan& plan) {
    std::vector<std::string> usual;
    std::string names;
    for (unsigned i = 0; i < measures; ++i) {
        if (plan.why[i].empty()) continue;
        const auto m = static_cast<Measure>(i);
        const bool odd = plan.switched[i] || (row(m).expected && plan.why[i].starts_with("not available"));
        const std::string line =
            fmt::format("the workers' cage lacks '{}' ({}): {}", about(m).name, about(m).what, plan.why[i]);
        if (odd) {
            log::warn("{}", line);
            continue;
        }
        usual.push_back(line);
        names += fmt::format("{}'{}'", names.empty() ? "" : ", ", about(m).name);
    }
    if (usual.size() == 1) log::info("{}", usual[0]);
    if (usual.size() < 2) return;
    log::info("the workers' cage lacks {}: `barcuda doctor` says what they are, --log-level debug says why", names);
    for (const std::string& line : usual) log::debug("{}", line);
}

std::vector<char*> environment(const Order& order) {
    std::vector<char*> kept;
    for (char** v = environ; *v; ++v)
        if (!order.has(Measure::environment) || read_by_a_driver(*v)) kept.push_back(*v);
    kept.push_back(nullptr);
    return kept;
}

void enter_bridge(const Plan& plan) {
    if (plan.order.has(Measure::privileges)) prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (plan.order.has(Measure::core)) {
        constexpr rlimit no_core{1, 1};
        setrlimit(RLIMIT_CORE, &no_core);
    }
    if (!plan.bridge_keeps_dumps && !sanitized) prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
}

}  // namespace barcuda::cage
