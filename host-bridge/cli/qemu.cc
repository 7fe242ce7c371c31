// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/cli/qemu.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "base/cli/exit_status.h"
#include "base/cli/installation.h"
#include "host-bridge/suspended/vm_stream.h"
#include "host-bridge/watch/text.h"

namespace barcuda {
namespace {

using nlohmann::json;

constexpr timeval patience{60, 0};   // for one answer: QEMU answers between two pieces of other work
constexpr int between_answers = 20;  // milliseconds
constexpr std::size_t most_answer = 1 << 20;
constexpr std::uint64_t most_stream = std::uint64_t{1} << 42;  // a QEMU that its guest has taken over writes on and on
constexpr int passed = 3;                                      // the descriptor's number in virsh
constexpr const char* name_of_pipe = "barcuda";
// An object of QEMU's that means nothing to it, and is there as long as QEMU is.
constexpr const char *kind_of_mark = "secret", *name_of_mark = "barcuda-move-";

// QEMU's answer as what it returns, or as its error.
Failure result_of(const json& answer, json& result) {
    if (const auto error = answer.find("error"); error != answer.end())
        return watch::printable(error->value("desc", "an error without a description"));
    result = answer.at("return");
    return {};
}

// Runs virsh, which has that descriptor under the number `passed`. `said`: its output.
Failure virsh(const std::vector<std::string>& arguments, std::string& said, int fd = -1) {
    std::vector<std::string> words{"virsh", "--quiet"};
    words.insert(words.end(), arguments.begin(), arguments.end());
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return strerror(errno);
    const pid_t child = fork();
    if (child == 0) {
        // Either may have the number that the other is to get.
        const int copy = fd >= 0 ? fcntl(fd, F_DUPFD, passed + 1) : -1, output = fcntl(ends[1], F_DUPFD, passed + 1);
        dup2(output, STDOUT_FILENO);
        dup2(output, STDERR_FILENO);
        if (fd >= 0) dup2(copy, passed);
        _exit(become("suspend", words));
    }
    close(ends[1]);
    const File output(ends[0]);
    if (child < 0) return strerror(errno);
    said.clear();
    char text[4096];
    for (ssize_t n = 0; (n = read(output.fd(), text, sizeof text)) > 0 || (n < 0 && errno == EINTR);)
        if (n > 0 && said.size() < most_answer) said.append(text, static_cast<std::size_t>(n));
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {}
    if (exit_status(status) == 0) return {};
    while (said.ends_with('\n')) said.pop_back();
    return "virsh: " + watch::printable(said);
}

}  // namespace

// Either end: QEMU's socket, or a domain.
struct Qemu::Talk {
    File socket;
    std::string domain, unread;
    std::int64_t stopped = 0, went_on = 0;  // microseconds

    // One line of QEMU's.
    Failure receive(std::string& line) {
        for (;;) {
            if (const auto end = unread.find('\n'); end != std::string::npos) {
                line = unread.substr(0, end);
                unread.erase(0, end + 1);
                return {};
            }
            if (unread.size() > most_answer) return "QEMU's monitor says too much";
            char text[4096];
            const ssize_t n = recv(socket.fd(), text, sizeof text, 0);
            if (n < 0 && errno == EINTR) continue;
            if (n < 0 && errno == EAGAIN)
                return "QEMU's monitor does not answer; another program may be connected to it";
            if (n < 0) return fmt::format("QEMU's monitor: {}", strerror(errno));
            if (n == 0) return "QEMU has ended";
            unread.append(text, static_cast<std::size_t>(n));
        }
    }

    Failure by_socket(const std::string& line, int fd, json& result) {
        if (!send_message(socket.fd(), line.data(), line.size(), fd))
            return errno == EPIPE ? "QEMU has ended" : strerror(errno);
        for (std::string said;;) {
            if (Failure e = receive(said)) return e;
            const json answer = json::parse(said);
            if (answer.contains("return") || answer.contains("error")) return result_of(answer, result);
            hear(answer);
        }
    }

    void hear(const json& event) {
        const std::string name = event.value("event", "");
        const json time = event.value("timestamp", json::object());
        const auto part = [&time](const char* member) { return time.value(member, std::uint64_t{0}); };
        const auto at = static_cast<std::int64_t>(part("seconds") * 1'000'000 + part("microseconds"));
        if (name == "STOP") stopped = at;
        if (name == "RESUME") went_on = at;
    }

    Failure by_virsh(const std::string& line, int fd, json& result) const {
        std::vector<std::string> words{"qemu-monitor-command", domain};
        if (fd >= 0) words.insert(words.end(), {"--pass-fds", std::to_string(passed)});
        words.push_back(line);
        std::string said;
        if (Failure e = virsh(words, said, fd)) return e;
        return result_of(json::parse(said), result);
    }

    // What the guest is told: by libvirt, which keeps account of it.
    Failure guest(const char* of_qemu, const char* of_virsh) {
        if (socket) return tell(of_qemu);
        std::string said;
        return virsh({of_virsh, domain}, said);
    }

    Failure tell(const std::string& command, const json& arguments, json& result, int fd = -1) {
        json line{{"execute", command}};
        if (!arguments.empty()) line["arguments"] = arguments;
        try {
            return socket ? by_socket(line.dump() + "\n", fd, result) : by_virsh(line.dump(), fd, result);
        } catch (const json::exception&) { return "QEMU's monitor gives an answer that is none"; }
    }
    Failure tell(const std::string& command, const json& arguments = json::object()) {
        json nothing;
        return tell(command, arguments, nothing);
    }
    // A text that is a member of an answer.
    Failure look(const std::string& command, const char* member, std::string& text) {
        json result;
        if (Failure e = tell(command, json::object(), result)) return e;
        const auto found = result.is_object() ? result.find(member) : result.end();
        text = result.is_object() && found != result.end() && found->is_string() ? found->get<std::string>() : "";
        return {};
    }
    Failure give(int fd) {
        json nothing;
        return tell("getfd", {{"fdname", name_of_pipe}}, nothing, fd);
    }
};

Qemu::Qemu() = default;
Qemu::~Qemu() = default;
Qemu::operator bool() const { return static_cast<bool>(talk_); }

Failure Qemu::connect(const std::string& path) {
    auto talk = std::make_unique<Talk>();
    const sockaddr_un address = unix_address(path);
    talk->socket = File(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    for (const int what : {SO_SNDTIMEO, SO_RCVTIMEO})
        if (!talk->socket || setsockopt(talk->socket.fd(), SOL_SOCKET, what, &patience, sizeof patience) != 0)
            return strerror(errno);
    if (::connect(talk->socket.fd(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
        return fmt::format("{}: {}; QEMU listens there with -qmp unix:{},server=on,wait=off", path, strerror(errno),
                           path);
    std::string greeting;
    if (Failure e = talk->receive(greeting)) return e;
    if (greeting.find("\"QMP\"") == std::string::npos) return path + ": it is not the QMP monitor of a QEMU";
    if (Failure e = talk->tell("qmp_capabilities")) return e;
    talk_ = std::move(talk);
    return {};
}

Failure Qemu::use_domain(const std::string& domain) {
    auto talk = std::make_unique<Talk>();
    talk->domain = domain;
    if (Failure e = talk->tell("query-status")) return fmt::format("domain {}: {}", domain, e.text());
    talk_ = std::move(talk);
    return {};
}

Failure Qemu::describe(std::string& domain) const {
    return virsh({"dumpxml", "--migratable", "--security-info", talk_->domain}, domain);
}

// libvirt starts no QEMU that waits, except by an argument that it does not know. The domain's own definition stays.
Failure Qemu::create(const std::string& name, const std::string& domain) {
    constexpr std::string_view waits = "<qemu:arg value='-incoming'/><qemu:arg value='defer'/>", end = "</domain>",
                               end_of_arguments = "</qemu:commandline>";
    std::string xml = domain;
    if (xml.find("'defer'") != std::string::npos) {  // it was woken before
    } else if (const auto at = xml.rfind(end_of_arguments); at != std::string::npos) {
        xml.insert(at, waits);
    } else if (const auto last = xml.rfind(end); last != std::string::npos) {
        xml.insert(last, fmt::format("<qemu:commandline xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'>{}{}",
                                     waits, end_of_arguments));
    } else {
        return "libvirt's description of the domain has no end";
    }
    const File file(memfd_create("domain", MFD_CLOEXEC));
    if (!file || write(file.fd(), xml.data(), xml.size()) != static_cast<ssize_t>(xml.size())) return strerror(errno);
    std::string said;
    if (Failure e = virsh({"create", "--paused", fmt::format("/proc/self/fd/{}", passed)}, said, file.fd())) return e;
    Failure e = use_domain(name);
    if (e) (void)virsh({"destroy", name}, said);
    return e;
}

Failure Qemu::check(const std::string& region) {
    struct stat its {};
    if (stat(region.c_str(), &its) != 0) return fmt::format("{}: {}", region, strerror(errno));
    json all;
    if (Failure e = talk_->tell("query-memdev", json::object(), all)) return e;
    memories_.clear();
    size_ = static_cast<std::uint64_t>(its.st_size);
    for (const json& one : all) {
        // A text or a yes in these places; a member that is anything else is none.
        const auto name = one.is_object() ? one.find("id") : one.end();
        const auto shared = one.is_object() ? one.find("share") : one.end();
        if (!one.is_object() || shared == one.end() || *shared != json(true)) continue;
        const std::string id = name != one.end() && name->is_string() ? name->get<std::string>() : "";
        json file;
        struct stat st {};
        const bool named =
            !talk_->tell("qom-get", {{"path", "/objects/" + id}, {"property", "mem-path"}}, file) && file.is_string();
        if (named && stat(file.get<std::string>().c_str(), &st) == 0 && st.st_dev == its.st_dev &&
            st.st_ino == its.st_ino)
            memories_.push_back(id);
        else
            return fmt::format(
                "QEMU's memory object {} is shared (share=on), so QEMU would leave it out of what it "
                "saves as it does the region: use memory that is not shared",
                watch::printable(id));
    }
    if (memories_.empty())
        return fmt::format(
            "this QEMU has no memory object with {}: it is another VM, or its device is "
            "ivshmem-doorbell, which QEMU cannot save (use ivshmem-plain or virtio-pmem)",
            region);
    return {};
}

// The region is left out; and a QEMU that reads a guest takes the disks from another one when its guest goes on, not
// before: until then the guest may go on in the other one.
Failure Qemu::migrate_our_way(bool yes) {
    json list = json::array();
    for (const char* const name : {"x-ignore-shared", "late-block-activate"})
        list.push_back({{"capability", name}, {"state", yes}});
    if (Failure e = talk_->tell("migrate-set-capabilities", {{"capabilities", list}})) return e;
    our_way_ = yes;
    return {};
}

std::int64_t Qemu::stopped_at() const { return talk_->stopped; }
std::int64_t Qemu::went_on_at() const { return talk_->went_on; }

Failure Qemu::look_at_state() {
    if (Failure e = talk_->look("query-status", "status", state_)) return e;
    if (state_ == "running" || state_ == "paused") return {};
    return fmt::format("the guest is neither running nor paused, but '{}'", watch::printable(state_));
}

Failure Qemu::stop_late() {
    if (Failure e = look_at_state()) return e;
    stopped_ = true;
    return {};
}

Failure Qemu::stop() {
    if (Failure e = look_at_state()) return e;
    stopped_ = true;
    return talk_->guest("stop", "suspend");
}

Failure Qemu::begin_to_save(const File& to) {
    if (Failure e = migrate_our_way(true)) return e;
    // The sooner it is over, the sooner the guest goes on.
    if (Failure e = talk_->tell("migrate-set-parameters", {{"max-bandwidth", std::int64_t{1} << 40}})) return e;
    if (Failure e = talk_->give(to.fd())) return e;
    Failure e = talk_->tell("migrate", {{"uri", fmt::format("fd:{}", name_of_pipe)}});
    if (e.text().find("peer mode") == std::string::npos) return e;
    return e.text() + ": its device needs master=on (`barcuda vm-config` prints it)";
}

// Waits for the end of what QEMU writes or reads.
Failure Qemu::migrated(const char* what) {
    for (std::string status;; poll(nullptr, 0, between_answers)) {
        if (Failure e = talk_->look("query-migrate", "status", status)) return e;
        if (status == "completed") return {};
        if (status == "failed" || status == "cancelled")  // empty: a QEMU that reads has not begun
            return fmt::format("QEMU has not {} the guest", what);
    }
}

Failure Qemu::save(const Sink& to) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return strerror(errno);
    const File from(ends[0]);
    {
        const File its(ends[1]);
        if (Failure e = begin_to_save(its)) return e;
    }
    std::vector<std::byte> begun, piece(1 << 20);
    std::uint64_t all = 0;
    bool passed = false;
    const auto pass_on = [&]() -> Failure {
        unsigned found = 0;
        passed = true;
        if (Failure e = forget_addresses(begun, memories_, size_, found)) return e;
        return to(begun);
    };
    for (;;) {
        const ssize_t n = read(from.fd(), piece.data(), piece.size());
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return strerror(errno);
        if (n == 0) break;
        all += static_cast<std::uint64_t>(n);
        if (all > most_stream) return "QEMU writes more than a guest can have";
        const auto bytes = std::span(piece).first(static_cast<std::size_t>(n));
        Failure e;
        if (passed) e = to(bytes);
        else {
            begun.insert(begun.end(), bytes.begin(), bytes.end());
            if (begun.size() >= vm_stream_beginning) e = pass_on();
        }
        if (e) return e;
    }
    if (Failure e = migrated("saved")) return e;
    return passed ? Failure() : pass_on();
}

void Qemu::take_over(const std::string& state) {
    state_ = state;
    stopped_ = our_way_ = true;
}

Failure Qemu::go_on() {
    if (!stopped_) return {};
    stopped_ = false;
    (void)talk_->tell("migrate_cancel");  // if there is still one
    std::string status = "active";
    for (int looks = 0; looks < 500 && (status == "active" || status == "cancelling" || status == "setup"); ++looks) {
        if (Failure e = talk_->look("query-migrate", "status", status)) return e;
        poll(nullptr, 0, between_answers);
    }
    if (our_way_)
        if (Failure e = migrate_our_way(false)) return e;
    return state_ == "running" ? talk_->guest("cont", "resume") : Failure();
}

void Qemu::quit() {
    stopped_ = false;
    (void)talk_->guest("quit", "destroy");  // its answer may be lost
}

Failure Qemu::awaits_guest() {
    std::string status;
    if (Failure e = talk_->look("query-status", "status", status)) return e;
    return status == "inmigrate" ? Failure() : "QEMU does not wait for a guest: start it with -incoming defer";
}

Failure Qemu::load(const File& from) {
    if (Failure e = awaits_guest()) return e;
    if (Failure e = talk_->tell("stop")) return e;  // a guest that ran would go on by itself
    if (Failure e = migrate_our_way(true)) return e;
    if (Failure e = talk_->give(from.fd())) return e;
    return talk_->tell("migrate-incoming", {{"uri", fmt::format("fd:{}", name_of_pipe)}});
}

Failure Qemu::loaded() {
    if (Failure e = migrated("read")) return e;
    return migrate_our_way(false);
}

Failure Qemu::run(const std::string& state) { return state == "running" ? talk_->guest("cont", "resume") : Failure(); }

Failure Qemu::mark(const std::string& move) {
    return talk_->tell("object-add", {{"qom-type", kind_of_mark}, {"id", name_of_mark + move}, {"data", move}});
}

bool Qemu::has_mark(const std::string& move) {
    json all;
    if (talk_->tell("qom-list", {{"path", "/objects"}}, all)) return false;
    return std::ranges::any_of(all, [&](const json& one) {
        const auto name = one.is_object() ? one.find("name") : one.end();
        return one.is_object() && name != one.end() && *name == json(name_of_mark + move);
    });
}

}  // namespace barcuda
