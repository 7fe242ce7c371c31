// SPDX-License-Identifier: Apache-2.0
// hostile: clients that mean no good. Opens channels of a region that a bridge serves, as the guest library does, and
// sends what that would not: commands made from the command table with lies among them, bytes that change after they
// are posted, queues and bells used wrongly, more of everything than there is. A session that is refused or ends is
// replaced by a new one. It judges itself alone: whether the bridge and the other clients fare well is for others
// to see (tests/hostile/campaign).
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>

#include "tests/hostile/generator.h"
#include "tests/hostile/liars.h"

barcuda::hostile::End barcuda::hostile::end_of(const Session& session) {
    if (!session.ended()) return End::finished;
    if (session.state() == BARCUDA_STATE_DEAD) std::fprintf(stderr, "hostile: %s\n", session.message().c_str());
    return session.state() == BARCUDA_STATE_DEAD      ? End::dead
           : session.state() == BARCUDA_STATE_REFUSED ? End::refused
                                                      : End::gone;
}

using namespace barcuda;
using namespace barcuda::hostile;

namespace {

using Way = End (*)(const Behaviour&, Tally&, std::uint64_t);
const std::map<std::string, Way> ways{{"structured", structured}, {"flip", structured}, {"ring", ring}, {"eat", eat}};

struct Options {
    Behaviour behaviour;
    std::string mode = "structured", json;
    std::uint64_t seed = 1, commands = 0, seconds = 0;
    unsigned clients = 2;
    std::optional<std::uint64_t> only_session;
    bool rows = false, quiet = false;
};

std::uint64_t now() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return static_cast<std::uint64_t>(t.tv_sec);
}

// One session after the other. 1: no channel was available for long.
int client(const Options& o, Tally& tally, unsigned index) {
    unsigned refused = 0;
    const Way way = ways.at(o.mode);
    for (std::uint64_t session = 0; !done(tally); ++session) {
        const std::uint64_t seed = o.only_session.value_or(o.seed * 1'000'003 + index * 100'000'000 + session);
        const End end = way(o.behaviour, tally, seed);
        tally.ends[static_cast<std::size_t>(end)].fetch_add(1);
        if (o.only_session) break;
        if (end != End::no_channel && end != End::gone && end != End::no_memory) refused = 0;
        else if (++refused == 1000) return 1;
        else usleep(20'000);
    }
    return 0;
}

void say(const Tally& t, std::uint64_t seconds) {
    std::uint64_t succeeded = 0, failed = 0;
    for (const auto& row : t.rows) {
        succeeded += row.succeeded;
        failed += row.failed;
    }
    std::fprintf(stderr, "hostile: %lu s: %lu commands, %lu of %lu answered ones succeeded; %lu sessions:", seconds,
                 t.commands.load(), succeeded, succeeded + failed, t.sessions.load());
    for (std::size_t i = 0; i < std::size(end_names); ++i)
        if (const auto n = t.ends[i].load()) std::fprintf(stderr, " %lu %s", n, end_names[i]);
    std::fprintf(stderr, "\n");
}

nlohmann::json summary(const Options& o, const Tally& t, std::uint64_t seconds) {
    std::uint64_t succeeded = 0, failed = 0;
    nlohmann::json rows, never_sent = nlohmann::json::array(), never_succeeded = nlohmann::json::array(), stuck, ends;
    for (std::size_t i = 0; i < op_names.size(); ++i) {
        if (row(static_cast<Op>(i)).how == How::guest) continue;
        const std::string name(op_names[i]);
        const RowTally& r = t.rows[i];
        rows[name] = {{"sent", r.sent.load()}, {"succeeded", r.succeeded.load()}, {"failed", r.failed.load()}};
        succeeded += r.succeeded;
        failed += r.failed;
        if (r.sent == 0) never_sent.push_back(name);
        if (r.succeeded == 0) never_succeeded.push_back(name);
        if (const auto n = t.stuck_in[i].load()) stuck[name] = n;
    }
    for (std::size_t i = 0; i < std::size(end_names); ++i) ends[end_names[i]] = t.ends[i].load();
    nlohmann::json all{{"mode", o.mode},
                       {"seed", o.seed},
                       {"seconds", seconds},
                       {"commands", t.commands.load()},
                       {"lies", t.lies.load()},
                       {"flips", t.flips.load()},
                       {"answered", succeeded + failed},
                       {"succeeded", succeeded},
                       {"failed", failed},
                       {"posted_failures", t.posted_failures.load()},
                       {"sessions", t.sessions.load()},
                       {"ends", ends},
                       {"stuck_in", stuck},
                       {"never_sent", never_sent},
                       {"never_succeeded", never_succeeded}};
    if (o.rows) all["rows"] = rows;
    return all;
}

}  // namespace

int main(int argc, char** argv) {
    CLI::App app{"Clients that mean no good, for a bridge that shall not mind: lies made from the command table.",
                 "hostile"};
    Options o;
    std::vector<std::string> only;
    app.add_option("--region", o.behaviour.region, "the region (default: as every program finds it)")
        ->envname("BARCUDA_REGION");
    app.add_option(
           "--mode", o.mode,
           "structured: commands made from the table; flip: the same, their bytes changed when they are posted; "
           "ring: queues, bells and supplies; eat: as much of one thing as there is")
        ->check(CLI::IsMember({"structured", "flip", "ring", "eat"}))
        ->capture_default_str();
    app.add_option("--commands", o.commands, "end after so many (default: none)");
    app.add_option("--seconds", o.seconds, "end after so long (default: never)");
    app.add_option("--clients", o.clients, "processes at a time")->check(CLI::Range(1, 128))->capture_default_str();
    app.add_option("--lies", o.behaviour.lies, "percent of the commands that carry one; of flips, those that stay")
        ->check(CLI::Range(0.0, 100.0))
        ->capture_default_str();
    app.add_option("--session-commands", o.behaviour.session_commands, "a session is left after so many")
        ->capture_default_str();
    app.add_option("--patience", o.behaviour.patience, "seconds without an answer after which a session is left")
        ->capture_default_str();
    app.add_option("--seed", o.seed)->capture_default_str();
    app.add_option("--only-session", o.only_session, "one session alone, by the number that a report names");
    app.add_option("--only", only, "every second command is one of these rows")->delimiter(',');
    app.add_option("--json", o.json, "the summary goes to this file (default: standard output)");
    app.add_flag("--rows", o.rows, "the summary has each row: sent, succeeded, failed");
    app.add_flag("--quiet", o.quiet, "no progress");
    CLI11_PARSE(app, argc, argv);
    if (!o.commands && !o.seconds && !o.only_session) o.commands = 100'000;
    if (o.only_session) o.clients = 1;
    o.behaviour.flips = o.mode == "flip";
    for (const std::string& name : only) {
        const auto at = std::ranges::find(op_names, name);
        if (at == op_names.end() || row(static_cast<Op>(at - op_names.begin())).how == How::guest) {
            std::fprintf(stderr, "hostile: no row %s crosses\n", name.c_str());
            return 2;
        }
        o.behaviour.only.push_back(static_cast<Op>(at - op_names.begin()));
    }

    void* shared = mmap(nullptr, sizeof(Tally), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) {
        std::perror("hostile: mmap");
        return 2;
    }
    Tally& tally = *new (shared) Tally{};
    const std::uint64_t begun = now();
    tally.most_commands = o.commands;
    tally.ends_at = o.seconds ? begun + o.seconds : 0;

    unsigned alive = 0, failed = 0;
    for (unsigned i = 0; i < o.clients; ++i, ++alive)
        if (fork() == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            _exit(client(o, tally, i));
        }
    for (std::uint64_t said = begun; alive > 0; usleep(50'000)) {
        int status = 0;
        for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0; --alive) {
            if (status == 0) continue;
            ++failed;
            std::fprintf(stderr, "hostile: a client %s %d\n",
                         WIFSIGNALED(status) ? "was killed by signal" : "ended with",
                         WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
        }
        if (!o.quiet && now() >= said + 5) say(tally, (said = now()) - begun);
    }
    say(tally, now() - begun);
    const nlohmann::json all = summary(o, tally, now() - begun);
    std::FILE* to = o.json.empty() ? stdout : std::fopen(o.json.c_str(), "w");
    if (!to) {
        std::perror(o.json.c_str());
        return 2;
    }
    std::fprintf(to, "%s\n", all.dump(2).c_str());
    return failed != 0;
}
