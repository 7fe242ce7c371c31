// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/bridge/kept.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

namespace barcuda {

using keeping::Form;

Kept::Heard Kept::ask(const keeping::Request& request, int with) const {
    Heard heard;
    if (!send_message(link_.fd(), &request, sizeof request, with) ||
        receive_message(link_.fd(), &heard.answer, sizeof heard.answer, heard.file) != sizeof heard.answer ||
        heard.answer.form != request.form)
        _exit(1);  // the keeper has ended: so do its workers, and this process is about to
    return heard;
}

int Kept::keep(const std::string& name, int file) const {
    return link_ ? ask(keeping::request(Form::keep, name), file).answer.error : 0;
}
void Kept::drop(const std::string& name) const {
    if (link_) ask(keeping::request(Form::drop, name));
}
File Kept::take(const std::string& name) const {
    return link_ ? std::move(ask(keeping::request(Form::take, name)).file) : File();
}

std::vector<std::string> Kept::names(const std::string& prefix) const {
    std::vector<std::string> all;
    if (!link_) return all;
    for (std::string last = prefix;;) {
        const keeping::Answer answer = ask(keeping::request(Form::list, last)).answer;
        if (answer.error != 0) break;
        last = answer.name;
        if (!last.starts_with(prefix)) break;
        all.push_back(last);
    }
    return all;
}

void Kept::drop_all(const std::string& prefix) const {
    for (const std::string& name : names(prefix)) drop(name);
}

std::optional<int> Kept::look(pid_t child) const {
    if (link_) {
        const keeping::Answer answer = ask(keeping::request(Form::look, {}, child)).answer;
        return answer.error == EAGAIN ? std::nullopt : std::optional(answer.status);
    }
    siginfo_t end{};
    if (waitid(P_PID, static_cast<id_t>(child), &end, WEXITED | WNOHANG | WNOWAIT) == 0 && end.si_pid == 0) return {};
    return 0;
}

std::optional<int> Kept::reap(pid_t child) const {
    if (link_) {
        const keeping::Answer answer = ask(keeping::request(Form::reap, {}, child)).answer;
        return answer.error == EAGAIN ? std::nullopt : std::optional(answer.status);
    }
    int status = 0;
    if (waitpid(child, &status, WNOHANG) == 0) return {};
    return status;
}

int Kept::await(pid_t child) const {
    if (!link_) {
        int status = 0;
        waitpid(child, &status, 0);
        return status;
    }
    for (;; poll(nullptr, 0, 1))
        if (const auto status = reap(child)) return *status;
}

void Kept::ready() const {
    if (link_) ask(keeping::request(Form::ready));
}
void Kept::done() const {
    if (link_) ask(keeping::request(Form::done));
}
// A hung keeper must not block the bridge.
void Kept::alive() const {
    const keeping::Request alive = keeping::request(Form::alive);
    if (link_) send(link_.fd(), &alive, sizeof alive, MSG_DONTWAIT | MSG_NOSIGNAL);
}

int Kept::upgrade(const Order& order, int file) const {
    if (!link_) return ENOSYS;
    keeping::Request request = keeping::request(order.only_check ? Form::check : Form::upgrade, order.words);
    request.milliseconds = order.milliseconds;
    return ask(request, file).answer.error;
}

Kept::Progress Kept::progress() const {
    Progress progress;
    if (!link_) return progress;
    const Heard heard = ask(keeping::request(Form::progress));
    const std::int32_t step = heard.answer.status;
    if (step >= 0 && step < static_cast<std::int32_t>(keeping::Step::count))
        progress.step = static_cast<keeping::Step>(step);
    progress.attempt = heard.answer.attempt;
    char text[2048];
    const ssize_t n = pread(heard.file.fd(), text, sizeof text, 0);
    if (n > 0) progress.text.assign(text, static_cast<std::size_t>(n));
    return progress;
}

}  // namespace barcuda
