/* SPDX-License-Identifier: Apache-2.0 */
/* init.c: the guest's first and only service. It boots the guest's user space, runs one program and ends the machine.
 *
 * The root is the host's, over 9p, read-only, under a layer in RAM: every program of the host is there at its own path.
 * Or it came with the initramfs, in /host: then QEMU can save the guest.
 * Four virtio ports connect us with tests/vm/run on the host: "job" says what to run and takes the answer, the other
 * three are the program's standard streams, so that nothing the kernel prints can mix with them.
 *
 *   job, host to guest     NUL-terminated strings, an empty one last: arg=... (several), env=... (several), cwd=...,
 *                          uid=N, gid=N, module=PARAMETERS of uio_barcuda, or else service=PROGRAM that gives clients
 *                          their parts of a virtio-pmem device, and no module of ours
 *   job, guest to host     "status N OUT ERR\n": as a shell's $?, 128 + n after signal n; and how many bytes went out
 *   job, host to guest     a byte: all of them have arrived. (A write to a port does not wait for the host.)
 *
 * Statically linked: it must run before there is a root.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <net/if.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/io.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define DEBUG_EXIT 0xf4 /* QEMU's isa-debug-exit, where run puts it */
#define MAX_STRINGS 4096
#define JOB_BYTES (1 << 20)

static struct {
    char *arg[MAX_STRINGS], *env[MAX_STRINGS];
    int args, envs;
    const char *cwd, *module, *service;
    unsigned uid, gid;
} job = {.cwd = "/", .module = ""};

static int job_port = -1;
static unsigned long long sent[2]; /* bytes of standard output and error */

/* ---- the end: always through here, so that the host never waits ---- */

static void __attribute__((noreturn)) end(int status) {
    char all_there;
    if (job_port >= 0) dprintf(job_port, "status %d %llu %llu\n", status, sent[0], sent[1]);
    while (job_port >= 0 && read(job_port, &all_there, 1) < 0 && errno == EINTR) continue;
    if (ioperm(DEBUG_EXIT, 4, 1) == 0) outl(0, DEBUG_EXIT); /* at once; a power-off takes a second */
    reboot(RB_POWER_OFF);
    for (;;) pause();
}

static void __attribute__((noreturn, format(printf, 1, 2))) die(const char *format, ...) {
    va_list list;
    fprintf(stderr, "init: ");
    va_start(list, format);
    vfprintf(stderr, format, list);
    va_end(list);
    fprintf(stderr, ": %s\n", strerror(errno));
    end(125); /* what env(1) and timeout(1) answer when they themselves fail */
}

/* ---- kernel modules ---- */

static void load(const char *path, const char *parameters) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || (syscall(SYS_finit_module, fd, parameters, 0) && errno != EEXIST)) die("module %s", path);
    close(fd);
}

/* A list names them, each after what it needs. */
static void load_all(const char *list) {
    char name[256], path[300];
    FILE *order = fopen(list, "re");
    if (!order) die("%s", list);
    while (fscanf(order, "%255s", name) == 1) {
        snprintf(path, sizeof path, "/modules/%s", name);
        load(path, "");
    }
    fclose(order);
}

/* ---- ports ---- */

/* Ports appear some milliseconds after their driver. */
static int open_port(const char *wanted, int flags) {
    for (int tries = 0; tries < 500; ++tries, usleep(10000)) {
        DIR *dir = opendir("/sys/class/virtio-ports");
        struct dirent *entry;
        while (dir && (entry = readdir(dir))) {
            char path[300], name[64] = "";
            snprintf(path, sizeof path, "/sys/class/virtio-ports/%s/name", entry->d_name);
            FILE *file = fopen(path, "re");
            if (!file) continue;
            if (fscanf(file, "%63s", name) != 1) name[0] = 0;
            fclose(file);
            if (strcmp(name, wanted)) continue;
            snprintf(path, sizeof path, "/dev/%s", entry->d_name);
            int fd = open(path, flags | O_CLOEXEC);
            if (fd < 0) break; /* not there yet */
            closedir(dir);
            return fd;
        }
        if (dir) closedir(dir);
    }
    errno = ENODEV;
    die("port %s", wanted);
}

static void read_job(void) {
    static char text[JOB_BYTES];
    size_t used = 0, begin = 0;
    for (;;) {
        ssize_t got = read(job_port, text + used, sizeof text - used);
        if (got <= 0) die("the job ends early");
        used += got;
        for (char *nul; (nul = memchr(text + begin, 0, used - begin)); begin = nul - text + 1) {
            char *line = text + begin;
            if (!*line) return;
            if (!strncmp(line, "arg=", 4) && job.args < MAX_STRINGS - 1)
                job.arg[job.args++] = line + 4;
            else if (!strncmp(line, "env=", 4) && job.envs < MAX_STRINGS - 1)
                job.env[job.envs++] = line + 4;
            else if (!strncmp(line, "cwd=", 4))
                job.cwd = line + 4;
            else if (!strncmp(line, "uid=", 4))
                job.uid = atoi(line + 4);
            else if (!strncmp(line, "gid=", 4))
                job.gid = atoi(line + 4);
            else if (!strncmp(line, "module=", 7))
                job.module = line + 7;
            else if (!strncmp(line, "service=", 8))
                job.service = line + 8;
            else
                errno = EINVAL, die("job line %.40s", line);
        }
        errno = E2BIG;
        if (used == sizeof text) die("job");
    }
}

/* ---- the root ---- */

static void mount_at(const char *type, const char *from, const char *to, unsigned long flags, const char *options) {
    mkdir(to, 0755);
    if (mount(from, to, type, flags, options)) die("mount %s on %s", type, to);
}

static void make_root(void) {
    mount_at("tmpfs", "ram", "/rw", 0, "mode=755,size=75%");
    mkdir("/rw/upper", 0755);
    mkdir("/rw/work", 0755);
    if (access("/host", F_OK))
        mount_at("9p", "host", "/host", MS_RDONLY, "trans=virtio,version=9p2000.L,cache=loose,msize=512000");
    mount_at("overlay", "root", "/root", 0, "lowerdir=/host,upperdir=/rw/upper,workdir=/rw/work");
    mount_at("proc", "proc", "/root/proc", 0, NULL);
    mount_at("sysfs", "sys", "/root/sys", 0, NULL);
    mount_at("devtmpfs", "dev", "/root/dev", 0, NULL);
    mount_at("devpts", "devpts", "/root/dev/pts", 0, "ptmxmode=666,mode=620");
    mount_at("tmpfs", "shm", "/root/dev/shm", 0, "mode=1777");
    mount_at("tmpfs", "run", "/root/run", 0, "mode=755");
}

/* What udev's rule does elsewhere. */
static void open_devices(void) {
    for (int i = 0; i < 8; ++i) {
        char path[64], name[64] = "";
        snprintf(path, sizeof path, "/sys/class/uio/uio%d/name", i);
        FILE *file = fopen(path, "re");
        if (!file) continue;
        if (fscanf(file, "%63s", name) != 1) name[0] = 0;
        fclose(file);
        snprintf(path, sizeof path, "/dev/uio%d", i);
        if (!strncmp(name, "barcuda", 7) && (chown(path, 0, job.gid) || chmod(path, 0660))) die("%s", path);
    }
}

/* `barcuda guest serve`, which takes its orders by the name of its group. Its lines go to the console. */
static void start_service(void) {
    const char *socket = "/root/run/barcuda/guest.sock";
    char group[16];
    snprintf(group, sizeof group, "%u", job.gid);
    load_all("/modules/order.pmem");
    pid_t pid = fork();
    if (pid < 0) die("fork");
    if (pid == 0) {
        if (chroot("/root") || chdir("/")) _exit(125);
        execl(job.service, job.service, "guest", "serve", "--group", group, NULL);
        _exit(127);
    }
    for (int tries = 0; tries < 3000 && access(socket, F_OK); ++tries) {
        if (waitpid(pid, NULL, WNOHANG) == pid) errno = ECHILD, die("%s guest serve", job.service);
        usleep(10000);
    }
    if (access(socket, F_OK)) die("%s", socket);
}

static void start_loopback(void) {
    struct ifreq lo = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd >= 0) ioctl(fd, SIOCSIFFLAGS, &lo);
    if (fd >= 0) close(fd);
}

/* ---- the program ---- */

static void __attribute__((noreturn)) run_program(int in, int out, int err) {
    dup2(in, 0);
    dup2(out, 1);
    dup2(err, 2);
    setsid();
    signal(SIGPIPE, SIG_DFL);
    if (chroot("/root") || chdir("/")) dprintf(2, "init: chroot: %s\n", strerror(errno)), _exit(125);
    gid_t groups[] = {job.gid};
    if (setgroups(job.uid ? 1 : 0, groups) || setgid(job.uid ? job.gid : 0) || setuid(job.uid))
        dprintf(2, "init: uid %u: %s\n", job.uid, strerror(errno)), _exit(125);
    if (chdir(job.cwd)) dprintf(2, "init: %s: %s (as uid %u)\n", job.cwd, strerror(errno), job.uid), _exit(125);
    environ = job.env;
    execvp(job.arg[0], job.arg);
    dprintf(2, "init: %s: %s\n", job.arg[0], strerror(errno));
    _exit(errno == ENOENT ? 127 : 126);
}

/* Moves what is there from a pipe to a port. False: the pipe has ended. */
static int pump(int from, int to, unsigned long long *count) {
    char buffer[32768];
    ssize_t got = read(from, buffer, sizeof buffer);
    if (got < 0) return errno == EAGAIN || errno == EINTR;
    for (ssize_t done = 0, n; done < got; done += n)
        if ((n = write(to, buffer + done, got - done)) < 0) return 0;
        else *count += n;
    return got > 0;
}

/* The program's end wakes poll() through `ended`; daemons that it leaves behind may keep the pipes open. */
static int ended[2];
static void on_child(int signal) {
    (void)signal;
    if (write(ended[1], "", 1) < 0) return;
}

static int run_job(void) {
    int in = open_port("stdin", O_RDONLY), ports[2] = {open_port("stdout", O_WRONLY), open_port("stderr", O_WRONLY)};
    int out[2], err[2], status = 0, finished = 0;
    if (pipe2(out, O_CLOEXEC) || pipe2(err, O_CLOEXEC) || pipe2(ended, O_CLOEXEC | O_NONBLOCK)) die("pipe");
    signal(SIGCHLD, on_child);
    signal(SIGPIPE, SIG_IGN);
    pid_t program = fork();
    if (program < 0) die("fork");
    if (program == 0) run_program(in, out[1], err[1]);
    close(in);
    close(out[1]);
    close(err[1]);
    fcntl(out[0], F_SETFL, O_NONBLOCK);
    fcntl(err[0], F_SETFL, O_NONBLOCK);

    struct pollfd fds[] = {{out[0], POLLIN, 0}, {err[0], POLLIN, 0}, {ended[0], POLLIN, 0}};
    for (;;) {
        int ready = poll(fds, 3, finished ? 0 : -1);
        if (finished && ready == 0) return status;
        for (int i = 0; i < 2; ++i)
            if (fds[i].revents && !pump(fds[i].fd, ports[i], &sent[i])) fds[i].fd = -1;
        if (fds[2].revents) {
            char drop[64];
            while (read(ended[0], drop, sizeof drop) > 0) continue;
        }
        int how;
        for (pid_t pid; (pid = waitpid(-1, &how, WNOHANG)) > 0;) {
            if (pid != program) continue;
            finished = 1;
            status = WIFSIGNALED(how) ? 128 + WTERMSIG(how) : WEXITSTATUS(how);
        }
    }
}

int main(void) {
    int console = open("/dev/console", O_RDWR | O_CLOEXEC);
    for (int fd = 0; fd < 3 && console >= 0; ++fd) dup2(console, fd);
    mount_at("proc", "proc", "/proc", 0, NULL);
    mount_at("sysfs", "sys", "/sys", 0, NULL);
    mount_at("devtmpfs", "dev", "/dev", 0, NULL);
    load_all("/modules/order");
    job_port = open_port("job", O_RDWR);
    read_job();
    make_root();
    if (job.service) {
        start_service();
    } else {
        load("/modules/uio_barcuda.ko", job.module);
        open_devices();
    }
    start_loopback();
    sethostname("guest", 5);
    fprintf(stderr, "init: uid %u runs %s in %s\n", job.uid, job.arg[0], job.cwd);
    end(run_job());
}
