// SPDX-License-Identifier: Apache-2.0
// ask.h: how answers.cu asks. The questions are in groups. Each group runs in a process of its own, which the first
// process starts before anything of CUDA has been called there, and which says a line before and after each question.
// If a question ends that process, hangs it, or leaves its context with an error that stays, then this is part of the
// answer, and a new process goes on behind that question. So any question may be asked.
#pragma once
#include <cuda.h>
#include <cudaProfiler.h>
#include <cuda_runtime.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

extern char** environ;

namespace ask {

inline unsigned asked = 0, skipped = 0;  // of this group
inline bool looks_behind = false;        // each question ends with a wait for the GPU
inline FILE* out = stdout;
constexpr int again = 99;  // a group's exit status: go on behind the last question, in a new process

inline std::string number(long long n) { return std::to_string(n); }

// What the question has left behind. An error that stays ends the process.
inline std::string behind() {
    const CUresult heard = cuCtxSynchronize();
    if (heard == CUDA_SUCCESS) return "";
    std::string said = " later=" + number(heard);
    if (cuCtxSynchronize() != CUDA_SUCCESS) said += " stays";
    return said;
}

template <class Question> void question(const std::string& name, Question&& q) {
    if (asked++ < skipped) return;
    fprintf(out, "?%s\n", name.c_str());
    fflush(out);
    std::string answer = q();
    bool stays = false;
    if (looks_behind) {
        const std::string late = behind();
        stays = late.ends_with("stays");
        answer += late;
        cudaGetLastError();
    }
    fprintf(out, "=%s\n", answer.c_str());
    fflush(out);
    if (stays) _exit(again);
}

// Answers of runtime functions: the code, and the error that is kept for cudaGetLastError.
inline std::string kept(cudaError_t code) {
    const cudaError_t last = cudaGetLastError();
    return number(code) + "/" + number(last);
}

struct Group {
    std::string name;
    std::function<void()> body;
};

// One process of a group, from its question `from` on. What it says is printed as NAME/QUESTION<tab>ANSWER.
// Returns how many questions it has answered; `ended` is why it ended: "" for its end, else what the question did.
inline unsigned run(const std::string& self, const Group& group, unsigned from, int patience, std::string& ended) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC)) abort();
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_adddup2(&files, ends[1], 3);
    posix_spawn_file_actions_addopen(&files, 1, "/dev/null", O_WRONLY, 0);
    if (!getenv("ANSWERS_LOUD")) posix_spawn_file_actions_addopen(&files, 2, "/dev/null", O_WRONLY, 0);
    const std::string number_from = number(from);
    const char* const words[] = {self.c_str(), "--group", group.name.c_str(), number_from.c_str(), nullptr};
    pid_t child;
    if (posix_spawn(&child, self.c_str(), &files, nullptr, const_cast<char**>(words), environ)) abort();
    posix_spawn_file_actions_destroy(&files);
    close(ends[1]);

    std::string said, open;
    unsigned answered = 0;
    bool hangs = false;
    for (;;) {
        pollfd p{ends[0], POLLIN, 0};
        if (poll(&p, 1, patience * 1000) <= 0) {
            hangs = true;
            kill(child, SIGKILL);
            break;
        }
        char text[4096];
        const ssize_t n = read(ends[0], text, sizeof text);
        if (n <= 0) break;
        said.append(text, n);
        for (size_t end; (end = said.find('\n')) != std::string::npos; said.erase(0, end + 1)) {
            const std::string line = said.substr(1, end - 1);
            if (said[0] == '?') {
                open = line;
            } else {
                printf("%s/%s\t%s\n", group.name.c_str(), open.c_str(), line.c_str());
                open.clear();
                ++answered;
            }
        }
    }
    close(ends[0]);
    int status = 0;
    waitpid(child, &status, 0);
    const bool good = WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == again);
    ended = hangs                          ? "hangs"
            : WIFSIGNALED(status)          ? "crash:" + number(WTERMSIG(status))
            : WEXITSTATUS(status) == again ? "again"
            : good                         ? ""
                                           : "exit:" + number(WEXITSTATUS(status));
    if (!good) {
        printf("%s/%s\t%s\n", group.name.c_str(), open.empty() ? "(end)" : open.c_str(), ended.c_str());
        if (open.empty()) ended = "";
        ++answered;
    }
    fflush(stdout);
    return answered;
}

inline int main(int argc, char** argv, const std::vector<Group>& groups) {
    if (argc == 4 && !strcmp(argv[1], "--group")) {
        for (const Group& g : groups) {
            if (g.name != argv[2]) continue;
            out = fdopen(3, "w");
            skipped = atoi(argv[3]);
            g.body();
            fflush(out);
            return 0;
        }
        return 1;
    }
    char self[4096] = {};
    if (readlink("/proc/self/exe", self, sizeof self - 1) < 0) abort();
    const char* const set = getenv("ANSWERS_PATIENCE");  // seconds for one question
    const int patience = set ? atoi(set) : 30;
    for (const Group& g : groups) {
        bool wanted = argc == 1;
        for (int i = 1; i < argc; ++i) wanted |= g.name.starts_with(argv[i]);
        if (!wanted) continue;
        std::string ended = "again";
        // A group that ends too often says no more than one that ends ever again.
        for (unsigned from = 0, times = 0; !ended.empty() && times < 200; ++times)
            from += run(self, g, from, patience, ended);
    }
    return 0;
}

}  // namespace ask
