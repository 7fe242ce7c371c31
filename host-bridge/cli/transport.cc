// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/cli/transport.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "base/cli/names.h"

namespace barcuda {
namespace {

std::string quoted(const std::string& word) {
    std::string all = "'";
    for (const char c : word) all += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return all + "'";
}

}  // namespace

Failure Destination::of_url(const std::string& url, const std::string& qmp, const std::vector<std::string>& more,
                            Destination& to) {
    constexpr std::string_view scheme = "ssh://";
    const std::string form = url + ": a destination is ssh://[USER@]HOST[:PORT]/NAME";
    if (!url.starts_with(scheme)) return form;
    const std::string rest = url.substr(scheme.size());
    const auto slash = rest.find('/');
    if (slash == std::string::npos || slash == 0) return form;
    std::string host = rest.substr(0, slash), port;
    const std::string name = rest.substr(slash + 1);
    if (Failure e = check_name(name)) return fmt::format("{} ({})", form, e.text());
    if (const auto colon = host.rfind(':'); colon != std::string::npos && !host.ends_with(']')) {
        port = host.substr(colon + 1);
        host.resize(colon);
        if (port.empty() || port.find_first_not_of("0123456789") != std::string::npos) return form;
    }
    to.called = url;
    to.words = {"ssh", "-T", "-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3"};
    if (!port.empty()) to.words.insert(to.words.end(), {"-p", port});
    std::string there = "barcuda receive ";
    if (!qmp.empty()) there += fmt::format("--qmp {} ", quoted(qmp));
    there += quoted(name);
    for (const std::string& word : more) there += " " + quoted(word);
    to.words.insert(to.words.end(), {"--", host, there});
    return {};
}

Destination Destination::of_command(const std::string& command) {
    return {{"/bin/sh", "-c", command}, fmt::format("`{}`", command)};
}

Failure Transport::start(const Destination& to) {
    int there[2], back[2];
    if (pipe2(there, O_CLOEXEC) != 0) return strerror(errno);
    File there_read(there[0]), there_write(there[1]);
    if (pipe2(back, O_CLOEXEC) != 0) return strerror(errno);
    File back_read(back[0]), back_write(back[1]);
    fcntl(there_write.fd(), F_SETFL, O_NONBLOCK);
    std::vector<char*> words;
    for (const std::string& word : to.words) words.push_back(const_cast<char*>(word.c_str()));
    words.push_back(nullptr);
    pid_ = fork();
    if (pid_ < 0) return strerror(errno);
    if (pid_ == 0) {
        sigset_t none;
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, nullptr);
        signal(SIGPIPE, SIG_DFL);
        dup2(there_read.fd(), STDIN_FILENO);
        dup2(back_write.fd(), STDOUT_FILENO);
        execvp(words[0], words.data());
        fmt::print(stderr, "barcuda move: {}: {}\n", words[0], strerror(errno));
        _exit(127);
    }
    stream_ = std::make_unique<Stream>(std::move(back_read), std::move(there_write));
    return {};
}

Transport::~Transport() {
    stream_.reset();
    if (pid_ <= 0) return;
    constexpr int looks = 100, between_looks = 20;  // milliseconds: one that has lost its ends ends by itself
    for (int i = 0; i < looks; ++i) {
        if (waitpid(pid_, nullptr, WNOHANG) != 0) return;
        poll(nullptr, 0, between_looks);
    }
    kill(pid_, SIGTERM);
    waitpid(pid_, nullptr, 0);
}

}  // namespace barcuda
