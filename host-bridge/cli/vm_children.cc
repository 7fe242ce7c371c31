// SPDX-License-Identifier: Apache-2.0
// vm_children.cc: the commands that `barcuda vm` starts, and what happens to signals meanwhile.
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <deque>
#include <fstream>
#include <sstream>

#include "base/cli/exit_status.h"
#include "host-bridge/cli/vm_parts.h"

namespace barcuda::parts {
namespace {

volatile sig_atomic_t last_signal = 0;
volatile sig_atomic_t waited_for = 0;  // a pid
void on_signal(int signal) {
    last_signal = signal;
    if (waited_for > 0) kill(waited_for, signal);
}

}  // namespace

bool found(const std::string& command) {
    const char* const path = getenv("PATH");
    std::istringstream folders(path ? path : "/usr/bin:/bin");
    for (std::string folder; std::getline(folders, folder, ':');)
        if (access(fmt::format("{}/{}", folder, command).c_str(), X_OK) == 0) return true;
    return false;
}

void add_system_folders_to_path() {
    const char* const path = getenv("PATH");
    setenv("PATH", fmt::format("{}:/usr/sbin:/sbin", path ? path : "/usr/bin:/bin").c_str(), 1);
}

Failure missing(const std::vector<Tool>& tools) {
    Words files, packages;
    for (const Tool& tool : tools) {
        if (tool.file[0] == '/' ? access(tool.file, R_OK) == 0 : found(tool.file)) continue;
        files.emplace_back(tool.file);
        if (packages.empty() || packages.back() != tool.package) packages.emplace_back(tool.package);
    }
    if (files.empty()) return {};
    return fmt::format("{} {} missing: apt install --no-install-recommends {}", fmt::join(files, ", "),
                       files.size() == 1 ? "is" : "are", fmt::join(packages, " "));
}

std::string quoted(const Words& words) {
    std::string line;
    for (const std::string& word : words) {
        if (!line.empty()) line += ' ';
        if (!word.empty() && word.find_first_of(" \t\n'\"\\$`*?[]{}()<>|&;#~!") == std::string::npos) {
            line += word;
            continue;
        }
        line += '\'';
        for (const char c : word) line += c == '\'' ? std::string("'\\''") : std::string(1, c);
        line += '\'';
    }
    return line;
}

void catch_signals() {
    struct sigaction action = {};
    action.sa_handler = on_signal;  // without SA_RESTART, so that a wait ends and its caller checks caught()
    for (const int s : {SIGINT, SIGTERM, SIGHUP}) sigaction(s, &action, nullptr);
}

int caught() { return last_signal; }

pid_t start(const Words& words, const std::string& output, bool apart) {
    const pid_t pid = fork();
    if (pid != 0) return pid;
    for (const int s : {SIGINT, SIGTERM, SIGHUP}) signal(s, SIG_DFL);
    prctl(PR_SET_PDEATHSIG, apart ? SIGKILL : SIGTERM);
    if (apart) setsid();
    if (!output.empty()) {  // closed by then: mmdebstrap runs dash, which cannot use descriptors of two digits
        const int out = open(output.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
        const int none = open("/dev/null", O_RDONLY | O_CLOEXEC);
        if (out < 0 || none < 0 || dup2(none, 0) < 0 || dup2(out, 1) < 0 || dup2(out, 2) < 0) _exit(cannot_run);
    }
    _exit(become("vm", words));
}

int call(const Words& words, const std::string& output) {
    const pid_t pid = start(words, output, false);
    if (pid < 0) return cannot_run;
    waited_for = pid;
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {}
    waited_for = 0;
    return exit_status(status);
}

bool is_of_a_vm(const std::string& region) {
    const std::string folder = region.substr(0, region.rfind('/') + 1);
    return access((folder + "ssh").c_str(), F_OK) == 0 && access((folder + "key.pub").c_str(), F_OK) == 0;
}

Words ssh_words(const Words& program, const std::string& folder) {
    Words words = {"ssh", "-F", folder + "/ssh"};
    if (isatty(0) && isatty(1)) words.emplace_back("-t");
    words.emplace_back("vm");
    // `; exit $?` keeps the shell: otherwise it would execute the program in its place, and a signal that kills the
    // program would become ssh's status 255.
    if (!program.empty()) words.push_back(quoted(program) + "; exit $?");
    return words;
}

std::string last_lines(const std::string& file, unsigned lines, std::streamoff from) {
    std::ifstream in(file);
    in.seekg(from);
    std::deque<std::string> last;
    for (std::string line; std::getline(in, line);) {
        last.push_back(line);
        if (last.size() > lines) last.pop_front();
    }
    std::string text;
    for (const std::string& line : last) text += "  " + line + '\n';
    return text;
}

}  // namespace barcuda::parts
