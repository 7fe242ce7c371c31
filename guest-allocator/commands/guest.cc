// SPDX-License-Identifier: Apache-2.0
// guest.cc: `barcuda guest enable` and `disable`: every program of a guest, or of one of its users, finds the library
// by itself. Programs learn of it from their environment, which this system sets: PAM's file for logins, cron and su;
// environment.d for a user's session; systemd's defaults for services. Where there are no such variables (sudo, env -i)
// the loader's configuration names the libraries, and with --every-program it loads ours into every program
// (/etc/ld.so.preload). And `barcuda` gets the name nvidia-smi. `barcuda guest status` says what is so,
// `barcuda guest serve` is the service of virtio-pmem.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <grp.h>
#include <pwd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>

#include "base/cli/installation.h"
#include "base/log.h"
#include "guest-allocator/commands/commands.h"
#include "guest-allocator/commands/machine.h"
#include "guest-allocator/pmem/service.h"
#include "shm-device/doors/service_messages.h"
#include "shm-device/region/region.h"

namespace barcuda {
namespace {

namespace fs = std::filesystem;

struct GuestOptions {
    bool disable = false;
    bool user = false;           // this user's programs alone
    bool system = false;         // all programs: what it means, too, if nothing is said
    bool every_program = false;  // by /etc/ld.so.preload
    std::string root;            // of the guest's file system; empty: this one's
};

constexpr auto begun = "# Written by `barcuda guest enable`; `barcuda guest disable` removes it.";
constexpr auto ended = "# The end of what `barcuda guest enable` wrote.";

std::string read(const fs::path& file) {
    std::ifstream in(file);
    return {std::istreambuf_iterator<char>(in), {}};
}

// Another file takes the old one's place at once: a loader that reads a half of ld.so.preload starts no program.
std::string write(const fs::path& file, const std::string& text) {
    std::error_code error;
    fs::create_directories(file.parent_path(), error);
    const fs::path fresh = file.string() + ".barcuda";
    {
        std::ofstream out(fresh, std::ios::trunc);
        out << text;
        out.close();
        if (!out) return fmt::format("cannot write {}: {}", fresh.string(), strerror(errno));
    }
    if (fs::exists(file)) fs::permissions(fresh, fs::status(file).permissions(), error);
    fs::rename(fresh, file, error);
    return error ? fmt::format("cannot write {}: {}", file.string(), error.message()) : "";
}

// A file without what is ours in it: our lines stand between two that say so.
std::string without_ours(const std::string& text) {
    std::istringstream in(text);
    std::string kept;
    bool ours = false;
    for (std::string line; std::getline(in, line);) {
        if (line == begun) ours = true;
        if (!ours) kept += line + '\n';
        if (line == ended) ours = false;
    }
    return kept;
}

struct SettingsFile {
    fs::path file;
    std::string what, lines;
    bool shared;       // other programs write there too
    const char* says;  // the begin of a line of another program that says the same; null: there is none
};

std::vector<SettingsFile> places(const GuestOptions& c, const Installation& here) {
    const std::string path = "LD_LIBRARY_PATH=" + here.links, library = "LD_PRELOAD=" + here.library;
    const std::string both = c.every_program ? path : library + '\n' + path;
    if (c.user) {
        const char* const home = getenv("HOME");
        const fs::path folder = home ? home : "";
        std::string exports;
        std::istringstream in(both);
        for (std::string line; std::getline(in, line);) exports += "export " + line + '\n';
        return {{folder / ".config/environment.d/50-barcuda.conf", "your sessions", both + '\n', false, nullptr},
                {folder / ".profile", "your login shells", exports, true, "export LD_PRELOAD="}};
    }
    const fs::path root = c.root;
    std::string words;
    std::istringstream in(both);
    for (std::string line; std::getline(in, line);) words += fmt::format("{}\"{}\"", words.empty() ? "" : " ", line);
    std::vector<SettingsFile> all = {
        {root / "etc/environment", "logins, ssh, cron, su", both + '\n', true, "LD_PRELOAD="},
        {root / "etc/environment.d/50-barcuda.conf", "sessions of users", both + '\n', false, nullptr},
        {root / "etc/systemd/system.conf.d/50-barcuda.conf", "services",
         "[Manager]\nDefaultEnvironment=" + words + '\n', false, nullptr},
        {root / "etc/ld.so.conf.d/000-barcuda.conf", "programs without these variables (sudo, env -i)",
         here.loader + '\n', false, nullptr}};
    if (c.every_program || c.disable)
        all.push_back(
            {root / "etc/ld.so.preload", "every program, however it is started", here.library + '\n', true, nullptr});
    return all;
}

int refuse(const std::string& why) { return complain("guest", why); }

// The folder or file on the way to this path that another user than root may change; empty: there is none. In a sticky
// folder users may change only what is their own. The group staff is Debian's for /usr/local.
std::string changeable(const fs::path& path) {
    const group* const staff = getgrnam("staff");
    for (fs::path at = path; !at.empty(); at = at == at.root_path() ? fs::path() : at.parent_path()) {
        struct stat st = {};
        if (lstat(at.c_str(), &st) != 0) continue;
        if (st.st_uid != 0) return at;
        const bool trusted = st.st_gid == 0 || (staff && st.st_gid == staff->gr_gid);
        const unsigned others = trusted ? S_IWOTH : S_IWOTH | S_IWGRP;
        if (!S_ISLNK(st.st_mode) && st.st_mode & others && !(S_ISDIR(st.st_mode) && st.st_mode & S_ISVTX)) return at;
    }
    return "";
}

// Why this installation must not be every program's, root's among them.
std::string not_for_all(const Installation& here) {
    for (const std::string& file : {here.library, here.links, here.loader, here.command}) {
        std::error_code error;
        for (const fs::path& path : {fs::path(file), fs::canonical(file, error)})
            if (const std::string place = path.empty() ? "" : changeable(path); !place.empty())
                return fmt::format(
                    "ordinary users may change {}, and with it what every program loads, root's too: install Barcuda "
                    "(docs/install.md), or enable it with --user for your own programs",
                    place);
    }
    return "";
}

// The loader reads a cache of what its configuration names. A system without ldconfig has another loader.
void refresh_loader(const GuestOptions& c) {
    const char* const program = access("/sbin/ldconfig", X_OK) == 0 ? "/sbin/ldconfig" : "/usr/sbin/ldconfig";
    if (access(program, X_OK) != 0) return;
    std::vector<const char*> words = {program};
    if (c.root != "/") words.insert(words.end(), {"-r", c.root.c_str()});
    words.push_back(nullptr);
    const pid_t child = fork();
    if (child == 0) {
        execv(program, const_cast<char**>(words.data()));
        _exit(127);
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) < 0 || status != 0)
        fmt::print(stderr, "barcuda guest: {} failed: run it, so that the loader knows of the change\n", program);
}

// The name by which scripts ask for the GPUs, in a folder of the administrator's or of the user's.
fs::path smi_link(const GuestOptions& c) {
    if (!c.user) return fs::path(c.root) / "usr/local/bin/nvidia-smi";
    return fs::path(getenv("HOME")) / ".local/bin/nvidia-smi";
}
bool is_ours(const fs::path& link, const Installation& here) {
    std::error_code error;
    return fs::is_symlink(fs::symlink_status(link, error)) && fs::read_symlink(link, error) == here.command;
}
void link_smi(const GuestOptions& c, const Installation& here) {
    const fs::path link = smi_link(c), nvidias = fs::path(c.user ? "/" : c.root) / "usr/bin/nvidia-smi";
    std::error_code error;
    if (is_ours(link, here)) return;
    for (const fs::path& other : {link, nvidias})
        if (fs::exists(fs::symlink_status(other, error))) {
            fmt::print("{:<44} is another program's, and stays; ours is `barcuda smi`\n", other.string());
            return;
        }
    fs::create_directories(link.parent_path(), error);
    fs::create_symlink(here.command, link, error);
    if (error) fmt::print(stderr, "barcuda guest: cannot make {}: {}\n", link.string(), error.message());
    else fmt::print("{:<44} barcuda smi\n", link.string());
}

int enable(const GuestOptions& c, const std::vector<SettingsFile>& all, const Installation& here) {
    for (const SettingsFile& p : all) {
        std::istringstream in(p.says ? without_ours(read(p.file)) : "");
        for (std::string line; std::getline(in, line);)
            if (line.starts_with(p.says))
                return refuse(fmt::format("{} has `{}` already; put {} in front there by hand, or remove that line",
                                          p.file.string(), line, p.lines.substr(0, p.lines.find('\n'))));
    }
    for (const SettingsFile& p : all) {
        std::string before = p.shared ? without_ours(read(p.file)) : "";
        // ld.so.preload knows comments since glibc 2.35 alone: our line there says by itself whose it is.
        const bool bare = p.file.filename() == "ld.so.preload";
        if (bare && before.find(p.lines) != std::string::npos) continue;
        const std::string text = bare ? before + p.lines : fmt::format("{}{}\n{}{}\n", before, begun, p.lines, ended);
        if (const std::string error = write(p.file, text); !error.empty()) return refuse(error);
        fmt::print("{:<44} {}\n", p.file.string(), p.what);
    }
    link_smi(c, here);
    if (!c.user) refresh_loader(c);
    fmt::print("Programs that are started from the next {} on find the GPUs by themselves{}.\n",
               c.user ? "login" : "login or `systemctl daemon-reexec`",
               c.every_program ? ""
                               : "; sudo drops the variables: a program that carries its CUDA runtime needs `sudo "
                                 "barcuda exec PROGRAM` there");
    return 0;
}

int disable(const GuestOptions& c, const std::vector<SettingsFile>& all, const Installation& here) {
    bool any = false;
    const std::string& library = here.library;
    for (const SettingsFile& p : all) {
        const std::string now = read(p.file);
        std::string kept = without_ours(now);
        if (p.file.filename() == "ld.so.preload")
            if (const auto at = kept.find(library + '\n'); at != std::string::npos) kept.erase(at, library.size() + 1);
        if (kept == now) continue;
        any = true;
        std::error_code error;
        if (const bool empty = kept.find_first_not_of(" \n") == std::string::npos;
            empty && p.file.filename() != "environment")
            fs::remove(p.file, error);
        else if (const std::string wrong = write(p.file, kept); !wrong.empty()) return refuse(wrong);
        if (error) return refuse(fmt::format("cannot remove {}: {}", p.file.string(), error.message()));
        fmt::print("{:<44} restored\n", p.file.string());
    }
    if (const fs::path link = smi_link(c); is_ours(link, here)) {
        any = true;
        std::error_code error;
        fs::remove(link, error);
        if (error) return refuse(fmt::format("cannot remove {}: {}", link.string(), error.message()));
        fmt::print("{:<44} removed\n", link.string());
    }
    if (any && !c.user) refresh_loader(c);
    if (!any) fmt::print("nothing was enabled here\n");
    return 0;
}

// Are its lines there?
bool has_ours(const SettingsFile& p, const Installation& here) {
    const std::string now = read(p.file);
    return without_ours(now) != now ||
           (p.file.filename() == "ld.so.preload" && now.find(here.library + '\n') != std::string::npos);
}

// May this user's programs use the device?
std::string membership() {
    constexpr const char* name = "barcuda";
    const group* const g = getgrnam(name);
    if (!g) return "there is no group barcuda here: install the package barcuda-guest";
    const gid_t its = g->gr_gid;
    if (geteuid() == 0) return "root needs none";
    std::vector<gid_t> mine(static_cast<std::size_t>(std::max(0, getgroups(0, nullptr))));
    const int count = getgroups(static_cast<int>(mine.size()), mine.data());
    mine.resize(static_cast<std::size_t>(std::max(0, count)));
    if (getegid() == its || std::ranges::find(mine, its) != mine.end()) return "this user is a member of barcuda";
    const passwd* const user = getpwuid(geteuid());
    const std::string me = user ? user->pw_name : std::to_string(geteuid());
    for (char** member = g->gr_mem; *member; ++member)
        if (me == *member) return "a member of barcuda from the next login on: log out and in again";
    return fmt::format("not a member of barcuda: sudo usermod -aG barcuda {}, then log in again", me);
}

// Prints which device this guest has, which users may use it, and which programs find it by themselves.
int status() {
    const Installation here = installation();
    const Machine machine;
    const auto say = [](const char* what, const std::string& is) { fmt::print("{:<9} {}\n", what, is); };
    std::vector<std::string> devices;
    for (const std::string& d : machine.devices) devices.push_back("ivshmem " + d);
    if (!machine.pmem.empty()) devices.push_back("virtio-pmem " + machine.pmem);
    say("device", devices.empty() ? "none that this user can see; `barcuda doctor` says what to do"
                                  : fmt::format("{}", fmt::join(devices, ", ")));
    say("by", machine.service  ? fmt::format("the guest's service, {}", door::usual_path)
              : machine.module ? "the kernel module uio_barcuda"
                               : "nothing: neither the module uio_barcuda nor barcuda-guest.service runs");
    Region region;
    const Error e = region.open(nullptr);
    say("region",
        e ? std::string(e.text)
          : fmt::format("{}, {} MiB, {}", region.path(), region.shape().size >> 20,
                        region.served() ? fmt::format("{} GPUs", region.device_count()) : "and no bridge serves it"));
    say("group", membership());
    std::vector<std::string> told;
    GuestOptions all, own;
    all.root.push_back('/');
    all.disable = true;  // all places, those of --every-program, too
    own.user = true;
    for (const SettingsFile& p : places(all, here))
        if (has_ours(p, here)) told.push_back(fmt::format("{} ({})", p.what, p.file.string()));
    if (getenv("HOME"))
        for (const SettingsFile& p : places(own, here))
            if (has_ours(p, here)) told.push_back(fmt::format("{} ({})", p.what, p.file.string()));
    if (told.empty())
        say("enabled", "for no program; `barcuda guest enable` does that, and `barcuda exec PROGRAM` runs one without");
    for (const std::string& t : told) say(&t == told.data() ? "enabled" : "", "for " + t);
    for (const GuestOptions* where : {&all, &own})
        if (where->user ? getenv("HOME") && is_ours(smi_link(own), here) : is_ours(smi_link(all), here))
            say("commands", fmt::format("{} is `barcuda smi`", smi_link(*where).string()));
    return 0;
}

// Lets a guest's programs find the library by themselves, or no more. Returns 1, after a message, if that cannot be.
int change(const GuestOptions& c) {
    const Installation here = installation();
    if (const std::string lacks = check(here); !c.disable && !lacks.empty()) return refuse(lacks);
    if (c.user && !getenv("HOME")) return refuse("--user: the variable HOME names no folder");
    if (!c.user && c.root.empty() && geteuid() != 0)
        return refuse("the system's files are root's: with sudo, or --user for your own programs alone");
    // What an image has is its maker's to know.
    if (const std::string why = not_for_all(here); !c.disable && !c.user && c.root.empty() && !why.empty())
        return refuse(why);
    GuestOptions where = c;
    if (where.root.empty()) where.root.push_back('/');
    const auto all = places(where, here);
    return c.disable ? disable(where, all, here) : enable(where, all, here);
}

int give_out(const pmem::ServiceOptions& options) {
    const char* const level = getenv("BARCUDA_LOG");
    log::start(stderr, "barcuda-guest", level ? level : "info");
    return pmem::serve(options);
}

// Of `enable` and `disable`: whose programs. Returns --user, which excludes what is of the system alone.
Option add_whose(Command command, GuestOptions& options) {
    const Option own = command.add_flag("--user", options.user, "your own programs alone");
    command.add_flag("--system", options.system, "all programs (the default)").excludes(own);
    command.add_option("--root", options.root, "of the guest that lies in this folder: an image that is being made")
        .existing_directory()
        .excludes(own);
    return own;
}

void add_enable(App& app, Command guest) {
    const auto options = std::make_shared<GuestOptions>();
    const Command command =
        app.add_to(guest, "enable", "let programs find the GPUs by themselves, without `barcuda exec` and variables",
                   [options] { return change(*options); });
    const Option every = command.add_flag(
        "--every-program", options->every_program,
        "by the loader's /etc/ld.so.preload: also programs that sudo starts, and others that get no such variables");
    every.excludes(add_whose(command, *options));
}

void add_disable(App& app, Command guest) {
    const auto options = std::make_shared<GuestOptions>();
    options->disable = true;
    add_whose(app.add_to(guest, "disable", "undo `barcuda guest enable`, and restore the files",
                         [options] { return change(*options); }),
              *options);
}

void add_serve(App& app, Command guest) {
    const auto options = std::make_shared<pmem::ServiceOptions>();
    const Command command = app.add_to(
        guest, "serve",
        "where the region is a virtio-pmem device: give clients their parts of it, with no module of ours; for root",
        [options] { return give_out(*options); });
    command.add_option("--device", options->device, "/dev/pmemN (default: the one that has a region)");
    command.add_option("--socket", options->socket, "the socket for clients").capture_default_str();
    command.add_option("--group", options->group, "whose members may use CUDA").capture_default_str();
}

}  // namespace

void add_guest(App& app) {
    const Command guest = app.add(
        "guest",
        "in a guest: whether programs find its GPUs by themselves, and to change that; the service of virtio-pmem",
        status);
    guest.may_have_subcommand();
    app.add_to(guest, "status", "which GPUs, through which device, and which programs find them (the default)", status);
    add_enable(app, guest);
    add_disable(app, guest);
    add_serve(app, guest);
}

}  // namespace barcuda
