// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/cli/moved_vm.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

#include "base/cli/installation.h"

namespace barcuda {
namespace {

namespace fs = std::filesystem;

std::string folder_of_moves() {
    const char *const data = getenv("XDG_DATA_HOME"), *const home = getenv("HOME");
    if (data && *data) return fs::path(data) / "barcuda/moved";
    return fs::path(home && *home ? home : "/var/lib") / ".local/share/barcuda/moved";
}

std::string text_of(const std::string& file) {
    std::ifstream in(file);
    return {std::istreambuf_iterator<char>(in), {}};
}

// With its name last, and on the disk.
Failure write_text(const std::string& path, const std::string& text) {
    const std::string part = path + ".part";
    {
        const File file(open(part.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
        if (!file || write(file.fd(), text.data(), text.size()) != static_cast<ssize_t>(text.size()) ||
            fsync(file.fd()) != 0)
            return fmt::format("{}: {}", part, strerror(errno));
    }
    if (rename(part.c_str(), path.c_str()) != 0) return fmt::format("{}: {}", path, strerror(errno));
    return {};
}

}  // namespace

// ---- its folder

MovedVm::MovedVm(const std::string& above, const std::string& name)
    : folder_(fs::path(above.empty() ? folder_of_moves() : above) / name) {}

Failure MovedVm::take() {
    std::error_code ec;
    const fs::path above = fs::path(folder_).parent_path();
    fs::create_directories(above, ec);
    if (mkdir(folder_.c_str(), 0700) != 0 && errno != EEXIST) return fmt::format("{}: {}", folder_, strerror(errno));
    lock_ = File(open((folder_ + "/lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!lock_) return fmt::format("{}/lock: {}", folder_, strerror(errno));
    constexpr int looks = 3000, between_looks = 20;  // milliseconds: a minute in all
    for (int i = 0; flock(lock_.fd(), LOCK_EX | LOCK_NB) != 0; ++i) {
        if (errno != EWOULDBLOCK && errno != EINTR) return fmt::format("{}/lock: {}", folder_, strerror(errno));
        if (i == looks) return fmt::format("{}: another `barcuda receive` has it", folder_);
        poll(nullptr, 0, between_looks);
    }
    return {};
}

bool MovedVm::waits() const {
    std::error_code ec;
    return fs::exists(set() + "/set.json", ec);
}

MoveOrder MovedVm::order() const {
    MoveOrder order;
    (void)!MoveOrder::parse(text_of(folder_ + "/order"), order);
    return order;
}

bool MovedVm::has_gone_on(const std::string& id) const { return text_of(folder_ + "/awake") == id; }

Failure MovedVm::begin(const MoveOrder& order) {
    std::error_code ec;
    drop();
    for (const char* const left : {"set.part", "filled", "awake", "log"}) fs::remove_all(fs::path(folder_) / left, ec);
    return write_text(folder_ + "/order", order.text());
}

Failure MovedVm::note_filled(const std::string& region) const { return write_text(folder_ + "/filled", region); }

bool MovedVm::has_filled(const std::string& region) const {
    return !region.empty() && text_of(folder_ + "/filled") == region;
}

Failure MovedVm::note_awake(const std::string& id) const { return write_text(folder_ + "/awake", id); }

void MovedVm::drop() const {
    std::error_code ec;
    fs::remove(set() + "/set.json", ec);  // first: what remains is no set
    fs::remove_all(set(), ec);
}

// ---- its bridge

Failure WakingBridge::start(const MovedVm& vm, std::vector<std::string> words, bool waits) {
    log_ = vm.log();
    int ready[2], word[2] = {-1, -1};
    if (pipe2(ready, O_CLOEXEC) != 0) return strerror(errno);
    ready_ = File(ready[0]);
    const File ready_end(ready[1]);
    if (waits && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, word) != 0) return strerror(errno);
    word_ = File(word[0]);
    const File word_end(word[1]);
    pid_ = fork();
    if (pid_ < 0) return strerror(errno);
    if (pid_ > 0) return {};
    setsid();
    // SIGPIPE stays ignored: a reader that was killed does not end the bridge.
    const int nothing = open("/dev/null", O_RDONLY),
              log = open(log_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW, 0600);
    dup2(nothing, STDIN_FILENO);
    dup2(log < 0 ? nothing : log, STDOUT_FILENO);
    dup2(log < 0 ? nothing : log, STDERR_FILENO);
    words.insert(words.end(), {"--ready-fd", std::to_string(dup(ready_end.fd()))});
    if (waits) words.insert(words.end(), {"--go-fd", std::to_string(dup(word_end.fd()))});
    _exit(become("receive", words));
}

Failure WakingBridge::why() const {
    waitpid(pid_, nullptr, 0);
    std::string text = text_of(log_);
    while (text.ends_with('\n')) text.pop_back();
    const auto last = text.rfind('\n');
    if (last != std::string::npos) text.erase(0, last + 1);
    // Without the head of a line of the log.
    if (const auto name = text.find(" barcuda-bridge "), end = text.find(": ", name); end != text.npos)
        text.erase(0, end + 2);
    return fmt::format("its bridge does not go on: {}", text.empty() ? "it has said nothing" : text);
}

Failure WakingBridge::await_back() {
    // Its keeper has the other end, too, and ends with it.
    pollfd ends[] = {{word_.fd(), POLLIN, 0}, {ready_.fd(), POLLIN, 0}};
    while (poll(ends, std::size(ends), -1) < 0 && errno == EINTR) {}
    char text[8];
    if (ends[0].revents & POLLIN && read(word_.fd(), text, sizeof text) > 0) return {};
    return why();
}

bool WakingBridge::go() const { return send(word_.fd(), "g", 1, MSG_NOSIGNAL) == 1; }

Failure WakingBridge::await_ready() {
    char text[256];
    ssize_t n = 0;
    do n = read(ready_.fd(), text, sizeof text);
    while (n < 0 && errno == EINTR);
    return n > 0 ? Failure() : why();
}

}  // namespace barcuda
