// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/keeper/upgrade.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/log.h"

namespace barcuda {
namespace {

using Step = keeping::Step;

constexpr unsigned bit(Step step) { return 1u << static_cast<unsigned>(step); }
constexpr unsigned orders = bit(Step::checking) | bit(Step::refused);

struct StepFacts {
    const char* name;
    unsigned successors;
};
constexpr StepFacts table[] = {
    {"none", orders},
    {"checking", bit(Step::fits) | bit(Step::refused) | bit(Step::replacing)},
    {"fits", orders},
    {"refused", orders},
    {"replacing", bit(Step::trying)},
    {"trying", bit(Step::replaced) | bit(Step::failed)},
    {"replaced", orders},
    {"failed", orders},
};
static_assert(std::size(table) == static_cast<std::size_t>(Step::count));

constexpr rlim_t most_text = 64 << 10;  // what a file may say: enough for all that a bridge says of its options

std::string end_of(int status) {
    if (WIFSIGNALED(status))
        return fmt::format("was killed by signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)));
    return fmt::format("ended with status {}", WEXITSTATUS(status));
}

}  // namespace

Failure check_program(int file) {
    struct stat st {};
    if (fstat(file, &st) != 0) return strerror(errno);
    if (!S_ISREG(st.st_mode)) return "it is not a regular file";
    if (st.st_uid != 0 && st.st_uid != geteuid())
        return fmt::format("it belongs to user {}: it must belong to root{}", st.st_uid,
                           geteuid() == 0 ? "" : fmt::format(" or to user {}, which runs the bridge", geteuid()));
    if ((st.st_mode & (S_IWGRP | S_IWOTH)) != 0)
        return "its group or others may write to it: remove that right (chmod go-w)";
    if ((st.st_mode & (S_IXUSR | S_IXGRP | S_IXOTH)) == 0) return "it cannot be executed (chmod +x)";
    return {};
}

void become_program(int file, std::vector<std::string> command) {
    std::vector<char*> words;
    words.reserve(command.size() + 1);
    for (std::string& word : command) words.push_back(word.data());
    words.push_back(nullptr);
    syscall(SYS_execveat, file, "", words.data(), environ, AT_EMPTY_PATH);
}

bool Upgrade::permits(Step from, Step to) { return (table[static_cast<unsigned>(from)].successors & bit(to)) != 0; }

// The only function that changes the step.
void Upgrade::enter(Step to) {
    if (!permits(step_, to)) {
        log::critical("an upgrade that is {} cannot be {}", table[static_cast<unsigned>(step_)].name,
                      table[static_cast<unsigned>(to)].name);
        std::abort();
    }
    step_ = to;
    if (!busy() && step_ != Step::replaced) program_ = File();
}

void Upgrade::say(std::string_view why) {
    if (write(text_.fd(), why.data(), why.size()) < 0) log::error("upgrade: {}", why);
}

std::string Upgrade::said() const {
    char text[256] = {};
    const ssize_t n = pread(text_.fd(), text, sizeof text, 0);
    const std::string_view all(text, n > 0 ? static_cast<std::size_t>(n) : 0);
    return std::string(all.substr(0, all.find('\n')));
}

int Upgrade::begin(const Order& order, File program) {
    if (busy()) return EBUSY;
    if (!program) return EBADF;
    File text(memfd_create("barcuda-upgrade", MFD_CLOEXEC));
    if (!text) return errno;
    text_ = std::move(text);
    program_ = std::move(program);
    only_check_ = order.only_check;
    within_ = order.within;
    deadline_ = Clock::now() + within_;
    late_ = false;
    ++attempt_;
    if (const Failure why = check_program(program_.fd())) {
        say(why.text());
        enter(Step::refused);
    } else if (!start_check(order.words)) {
        say(strerror(errno));
        enter(Step::refused);
    } else {
        enter(Step::checking);
    }
    return 0;
}

bool Upgrade::start_check(std::string_view words) {
    const pid_t keeper = getpid();
    checker_ = fork();
    if (checker_ != 0) return checker_ > 0;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != keeper) _exit(1);
    const rlimit text{most_text, most_text};
    setrlimit(RLIMIT_FSIZE, &text);
    dup2(text_.fd(), STDOUT_FILENO);
    dup2(text_.fd(), STDERR_FILENO);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    std::vector<std::string> command = command_;
    command.insert(command.end(), {"--could-follow", fmt::format("{}.keeper{}", words, keeping::form_of_messages)});
    become_program(program_.fd(), std::move(command));
    const std::string why = fmt::format("it cannot be executed: {}\n", strerror(errno));
    _exit(write(STDOUT_FILENO, why.data(), why.size()) < 0 ? 126 : 127);
}

bool Upgrade::look() {
    if (step_ != Step::checking) return false;
    int status = 0;
    if (!late_ && Clock::now() >= deadline_) {
        late_ = true;
        kill(checker_, SIGKILL);
    }
    const pid_t reaped = waitpid(checker_, &status, WNOHANG);
    if (reaped == 0) return false;
    if (reaped < 0) status = SIGKILL;  // a bridge has reaped it: what it answered is not known
    checker_ = -1;
    if (late_) {
        say(fmt::format("it did not answer the check within {} s\n", within_.count() / 1000.0));
        enter(Step::refused);
    } else if (!WIFEXITED(status) || WEXITSTATUS(status) != keeping::could_follow) {
        if (said().empty()) say(fmt::format("it {} when it was asked\n", end_of(status)));
        enter(Step::refused);
    } else {
        enter(only_check_ ? Step::fits : Step::replacing);
    }
    return step_ == Step::replacing;
}

void Upgrade::old_one_ended() {
    if (File text(memfd_create("barcuda-upgrade", MFD_CLOEXEC)); text) text_ = std::move(text);
    deadline_ = Clock::now() + within_;
    enter(Step::trying);
}

void Upgrade::ready() { enter(Step::replaced); }

bool Upgrade::is_late(Clock::time_point now) { return now >= deadline_ && !std::exchange(late_, true); }

void Upgrade::not_started(int error) {
    say(fmt::format("it cannot be started: {}\n", strerror(error)));
    enter(Step::failed);
}

void Upgrade::ended(int status) {
    if (late_) say(fmt::format("it did not serve within {} s\n", within_.count() / 1000.0));
    else if (said().empty()) say(fmt::format("it {} before it served\n", end_of(status)));
    enter(Step::failed);
}

}  // namespace barcuda
