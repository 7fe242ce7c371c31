// SPDX-License-Identifier: Apache-2.0
// mischief.cc: for cage_test.sh: what somebody does who has taken a worker over. It is built into a driver that is
// otherwise the software GPU; a client chooses the attempt by the "affinity" that it asks about, and gets 0 (done) or
// an errno.
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

const pid_t bridge = getppid();  // asked when this is loaded

int result(long r) { return r < 0 ? errno : 0; }
int opened(int fd) { return fd < 0 ? errno : (close(fd), 0); }
int found(bool there) { return there ? 0 : EPERM; }

int execute() {
    char name[] = "sh", option[] = "-c", command[] = "exit 7";
    char* const words[] = {name, option, command, nullptr};
    return result(execv("/bin/sh", words));
}
int make_process() {  // as the kernel is asked by a C library that knows clone alone
    const long child = syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr);
    if (child == 0) _exit(0);
    return child < 0 ? errno : result(waitpid(static_cast<pid_t>(child), nullptr, 0));
}
int trace() {
    if (ptrace(PTRACE_SEIZE, bridge, nullptr, nullptr) != 0) return errno;
    ptrace(PTRACE_INTERRUPT, bridge, nullptr, nullptr);
    waitpid(bridge, nullptr, __WALL);
    return result(ptrace(PTRACE_DETACH, bridge, nullptr, nullptr));
}
int read_another() {
    char text[8];
    static const char nowhere[8] = {};
    const iovec mine{text, sizeof text}, anothers{const_cast<char*>(nowhere), sizeof nowhere};
    return process_vm_readv(bridge, &mine, 1, &anothers, 1, 0) < 0 && errno != EFAULT ? errno : 0;  // EFAULT: it may
}
int make_executable() {
    void* const page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return result(mprotect(page, 4096, PROT_READ | PROT_EXEC));
}
std::string file(const char* name) { return std::string(getenv("BARCUDA_TEST_FILES")) + name; }

}  // namespace

#define ATTEMPT(number, name, ...) \
    case number: *value = (__VA_ARGS__); break;

// CUDA's, but for the numbers of the affinities.
extern "C" int cuDeviceGetExecAffinitySupport(int* value, int attempt, int) {
    struct stat about;
    char text[8];
    switch (attempt) {
        ATTEMPT(1, open, opened(open("/etc/passwd", O_RDONLY)))
        ATTEMPT(2, create, opened(open(file("/new").c_str(), O_RDWR | O_CREAT, 0600)))
        ATTEMPT(3, look, result(stat("/etc/passwd", &about)))
        ATTEMPT(4, inet, opened(socket(AF_INET, SOCK_STREAM, 0)))
        ATTEMPT(5, unix, opened(socket(AF_UNIX, SOCK_STREAM, 0)))
        ATTEMPT(6, signal, result(kill(bridge, SIGCONT)))
        ATTEMPT(7, thread_of_another, result(syscall(SYS_tgkill, bridge, bridge, SIGCONT)))
        ATTEMPT(8, trace, trace())
        ATTEMPT(9, read_another, read_another())
        ATTEMPT(10, exec, execute())
        ATTEMPT(11, fork, make_process())
        ATTEMPT(
            12, executable,
            mmap(nullptr, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED ? errno : 0)
        ATTEMPT(13, make_executable, make_executable())
        ATTEMPT(14, unshare, result(unshare(CLONE_NEWUTS)))
        ATTEMPT(15, setuid, result(syscall(SYS_setuid, 65534)))
        ATTEMPT(16, handler, signal(SIGSYS, SIG_IGN) == SIG_ERR ? errno : 0)
        ATTEMPT(17, environment, found(getenv("ANOTHERS_SECRET")))
        ATTEMPT(18, input, found(read(STDIN_FILENO, text, sizeof text) > 0))
        ATTEMPT(19, cut_region, result(ftruncate(3, 0)))
        default: return 1;
    }
    return 0;
}
