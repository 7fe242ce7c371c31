// SPDX-License-Identifier: Apache-2.0
// barcuda-exporter: metrics for Prometheus over HTTP, of all bridges of this machine that its user may ask, or of one
// bridge. It is a separate process: strangers connect to it, so it has no files, and no bridge waits for it.
// `barcuda-bridge --metrics` starts one.
#include <fmt/format.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <seccomp.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <string>

#include "base/cli/app.h"
#include "base/listen.h"
#include "base/visitors.h"
#include "host-bridge/watch/metrics.h"

namespace {

using namespace barcuda;
using Clock = std::chrono::steady_clock;

struct Source {
    const watch::Doors doors;
    const bool clients, gpus;
    std::string text;
    Clock::time_point taken{};

    // Bridges are asked no more often than that, whatever the number of requests.
    const std::string& now() {
        constexpr std::chrono::milliseconds fresh{500};
        if (taken == Clock::time_point{} || Clock::now() - taken > fresh) {
            text = watch::metrics(gpus ? watch::look_at_gpus(doors) : watch::look(false, doors), clients);
            taken = Clock::now();
        }
        return text;
    }
};

MHD_Result say(MHD_Connection* to, unsigned status, const char* type, const std::string& text) {
    MHD_Response* const response =
        MHD_create_response_from_buffer(text.size(), const_cast<char*>(text.data()), MHD_RESPMEM_MUST_COPY);
    if (!response) return MHD_NO;
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    const MHD_Result queued = MHD_queue_response(to, status, response);
    MHD_destroy_response(response);
    return queued;
}

struct Server {
    Source source;
    Visitors visitors;
};

// Notes connections that begin and end.
void note(void* server, MHD_Connection* to, void**, MHD_ConnectionNotificationCode what) {
    Visitors& visitors = static_cast<Server*>(server)->visitors;
    if (what == MHD_CONNECTION_NOTIFY_CLOSED) return visitors.left(to);
    const auto* const fd = MHD_get_connection_info(to, MHD_CONNECTION_INFO_CONNECTION_FD);
    const auto* const from = MHD_get_connection_info(to, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    if (!fd) return;
    std::string address;  // for a UNIX socket: the same for all
    if (from && from->client_addr && from->client_addr->sa_family == AF_INET)
        address.assign(
            reinterpret_cast<const char*>(&reinterpret_cast<const sockaddr_in*>(from->client_addr)->sin_addr),
            sizeof(in_addr));
    // the network part: one machine has many addresses
    if (from && from->client_addr && from->client_addr->sa_family == AF_INET6)
        address.assign(
            reinterpret_cast<const char*>(&reinterpret_cast<const sockaddr_in6*>(from->client_addr)->sin6_addr),
            sizeof(in6_addr) / 2);
    visitors.came(to, fd->connect_fd, address);
}

MHD_Result answer(void* server, MHD_Connection* to, const char* url, const char* method, const char*, const char*,
                  std::size_t*, void**) {
    static_cast<Server*>(server)->visitors.answered(to);
    if (std::strcmp(method, MHD_HTTP_METHOD_GET) != 0 && std::strcmp(method, MHD_HTTP_METHOD_HEAD) != 0)
        return say(to, MHD_HTTP_METHOD_NOT_ALLOWED, "text/plain", "only GET is supported\n");
    if (std::strcmp(url, "/metrics") == 0)
        return say(to, MHD_HTTP_OK, watch::metrics_type, static_cast<Server*>(server)->source.now());
    return say(to, std::strcmp(url, "/") == 0 ? MHD_HTTP_OK : MHD_HTTP_NOT_FOUND, "text/html",
               "<a href=\"/metrics\">Barcuda's metrics</a>\n");
}

// From here on: answer connections, ask bridges, and nothing else. False: errno says why.
bool enter_cage() {
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return false;
#ifndef BARCUDA_SANITIZED  // sanitizers open files
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ERRNO(EPERM));
    int status = filter ? 0 : -ENOMEM;
    for (
        const char* name :
        {"accept",       "accept4",     "brk",       "clock_gettime", "close",      "connect",         "epoll_ctl",
         "epoll_pwait",  "epoll_wait",  "exit",      "exit_group",    "fcntl",      "fstat",           "futex",
         "getdents64",   "getpeername", "getrandom", "getsockname",   "getsockopt", "geteuid",         "gettimeofday",
         "lseek",        "madvise",     "mmap",      "mprotect",      "mremap",     "munmap",          "newfstatat",
         "poll",         "ppoll",       "read",      "recvfrom",      "recvmsg",    "restart_syscall", "rt_sigprocmask",
         "rt_sigreturn", "sendmsg",     "sendto",    "setsockopt",    "shutdown",   "write",           "writev"})
        if (status == 0) status = seccomp_rule_add(filter, SCMP_ACT_ALLOW, seccomp_syscall_resolve_name(name), 0);
    if (status == 0)
        status = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(socket), 1, SCMP_A0(SCMP_CMP_EQ, AF_UNIX, 0));
    if (status == 0) status = seccomp_load(filter);
    seccomp_release(filter);
    errno = -status;
    return status == 0;
#else
    return true;
#endif
}

int complain(const std::string& what) {
    fmt::print(stderr, "barcuda-exporter: {}\n", what);
    return 1;
}

}  // namespace

int main(int argc, char** argv) {
    CLI::App app{"Metrics for Prometheus over HTTP, of this machine's bridges; root sees all users' bridges.",
                 "barcuda-exporter"};
    std::string address = "127.0.0.1:9788", region;
    bool clients = false, gpus = false;
    int listener = -1;
    pid_t bridge = 0;
    app.add_option("--listen", address, "numeric HOST:PORT, or the path of a socket")->capture_default_str();
    app.add_option("--region", region, "only the bridge that serves this region (default: all bridges)");
    app.add_flag("--clients", clients, "also series of each client");
    app.add_flag("--gpus", gpus, "also how busy the GPUs are; each request makes NVML work for some seconds");
    app.add_option("--listener", listener)->group("");  // of the bridge, already open
    app.add_option("--bridge", bridge)->group("");      // pid: the exporter ends with its bridge
    app.set_version_flag("--version", BARCUDA_VERSION);
    int status = 0;
    if (!understood(app, argc, argv, status)) return status;

    if (bridge && (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != bridge)) return 0;
    std::string error;
    File at = listener >= 0 ? File(listener) : listen_at(address, error);
    if (!at) return complain(error);
    constexpr unsigned most_connections = 16,
                       most_at_once = 128;  // as many as may connect before the first is disconnected
    constexpr std::chrono::milliseconds patience{5000}, grace{500};
    Server server{{watch::Doors(region), clients, gpus, {}, {}}, {most_connections, patience, grace}};
    signal(SIGPIPE, SIG_IGN);
    // At the library's own limit, connections wait until another one ends, in the order of their arrival, for at most
    // `grace` each. The library's log is off, because strangers could fill it.
    MHD_Daemon* const daemon =
        MHD_start_daemon(MHD_USE_EPOLL, 0, nullptr, nullptr, &answer, &server, MHD_OPTION_LISTEN_SOCKET, at.fd(),
                         MHD_OPTION_CONNECTION_LIMIT, most_at_once, MHD_OPTION_CONNECTION_TIMEOUT,
                         static_cast<unsigned>(std::chrono::ceil<std::chrono::seconds>(patience).count()),
                         MHD_OPTION_NOTIFY_CONNECTION, &note, &server, MHD_OPTION_END);
    if (!daemon) return complain("libmicrohttpd does not start");
    if (!enter_cage()) return complain(fmt::format("no filter of system calls: {}", strerror(errno)));
    for (int wait = -1; MHD_run_wait(daemon, wait) == MHD_YES;) {
        // the library notices that, and closes it
        for (const int fd : server.visitors.overdue()) shutdown(fd, SHUT_RDWR);
        const auto next = server.visitors.next();
        const auto left = next ? std::chrono::ceil<std::chrono::milliseconds>(*next - Clock::now()).count() : -1;
        wait = next ? static_cast<int>(std::max<std::int64_t>(left, 0)) : -1;
    }
    return complain("libmicrohttpd has stopped");
}
