// SPDX-License-Identifier: Apache-2.0
// worker_process.h: one worker, from its start until it has been reaped. It is in one named state; one function makes
// the transitions, and only those of a table. Its descriptors, its sheet and its control group go with it.
//
//   starting  its driver opens, and it has no client          assigned  it has a client, and its driver opens still
//   warm      its driver is open, and it waits for a client   serving   its driver is open, and it has a client
//   leaving   it has been told to end                         ended     its process has been reaped
#pragma once
#include <sys/types.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/bucket.h"
#include "base/message.h"
#include "host-bridge/between/link.h"
#include "host-bridge/bridge/grants.h"
#include "host-bridge/bridge/kept.h"
#include "host-bridge/bridge/loop.h"
#include "host-bridge/bridge/spawn.h"
#include "host-bridge/bridge/worker_log.h"
#include "host-bridge/cage/cgroup.h"
#include "host-bridge/cage/mapper.h"

namespace barcuda {

// What a later bridge must know of a worker, beside its descriptors: in a file in memory that only bridges have.
struct KeptWorker {
    static constexpr std::uint32_t form_of_this_build = 1;  // grows with every change
    std::uint32_t form = form_of_this_build, wrapped = 0;
    std::int32_t pid = 0;
    std::uint32_t judging = 0;  // the bridge has taken a question of the worker's mapper, and has not answered it
    std::uint64_t start = 0;    // of /proc/PID/stat
    std::uint64_t bare = 0;     // bytes in its group when its client came
    std::uint32_t has_mapper = 0, device_count = 0;
    std::uint8_t devices[BARCUDA_MAX_DEVICES] = {};
    char group[64] = {};
    cage::Order order;
};

// What all workers of a bridge may say in its log.
struct WorkersText {
    const std::uint64_t* a_second = nullptr;  // bytes; null or 0: any number
    Bucket bucket;
};

class WorkerProcess {
  public:
    enum class State : unsigned { starting, warm, assigned, serving, leaving, ended, count };
    static const char* name(State state);
    static bool permits(State from, State to);

    using Clock = std::chrono::steady_clock;

    struct Facts {
        std::vector<int> devices;    // that its driver shows: numbers of the region's devices, in this order
        const Kept* kept = nullptr;  // null: it is this process's own child, and ends with it
        std::shared_ptr<cage::Groups> groups = {};  // where an earlier bridge's workers may have one
        std::uint64_t may_say = 0;                  // Limit::log_text
        WorkersText* text = nullptr;                // of all workers; null: there is no such limit
    };
    // Starts one: adds to `what` the worker's own descriptors (link, log, errors, sheet) and, if the cage has one, a
    // control group. Null: it cannot be started, and errno says why.
    static std::unique_ptr<WorkerProcess> start(Spawn what, Facts facts);
    // One that an earlier bridge has started, and that lives; it has a client. `start`: as of /proc/PID/stat, so that a
    // number that was used again is not taken for it. Null: it has gone, or this bridge does not understand it.
    static std::unique_ptr<WorkerProcess> adopt(pid_t pid, std::uint64_t start, std::string called, Facts facts);
    // Ends a worker of an earlier bridge that has no client.
    static void end_left(pid_t pid, const Kept& kept);
    // The pids of all workers that are kept.
    static std::vector<pid_t> left(const Kept& kept);

    // Ends what has not been reaped.
    ~WorkerProcess();
    WorkerProcess(const WorkerProcess&) = delete;

    State state() const { return state_; }
    // Its client has come.
    void assign(std::string called);
    // Checks whether its driver is open.
    void look();
    // Tells it to end. A wrapped one then ends by itself, because the wrapper has work to do afterwards.
    void dismiss();
    // Whether it no longer uses its client's memory. A process under a debugger has not ended yet.
    bool has_gone() const;
    // Reaps it when it has ended: "was killed in NAME".
    std::string reap();
    // dismiss(), and reap() if it has ended. False: it still exists.
    bool release();
    // Its process is ending, for which a driver may take long.
    bool is_ending() const;

    bool was_warm() const { return was_warm_; }  // its driver was open when its client came
    bool is_open() const { return state_ == State::warm || state_ == State::serving; }  // its driver is open
    bool is_leaving() const { return state_ == State::leaving; }
    bool has_ended() const { return state_ == State::ended; }

    pid_t pid() const { return pid_; }
    bool wrapped() const { return wrapped_; }
    int end() const { return pidfd_.fd(); }  // readable: its process has ended
    int link() const { return link_.fd(); }  // the bridge's end never blocks
    const cage::Listener& mapper() const { return mapper_; }
    // Takes the descriptor of its mapper's message. Returns why it is refused; null: it is not. (cage::Listener::meet)
    const char* meet_mapper(File listener, std::span<const int> others);
    void answer_mapper(short events, std::uint64_t base, const cage::MayMap& may);
    Sheet& sheet() { return *sheet_; }
    const Sheet& sheet() const { return *sheet_; }
    const std::vector<int>& devices() const { return devices_; }
    void set_devices(std::vector<int> devices) {
        devices_ = std::move(devices);
        write_down();
    }
    void may_say(std::uint64_t bytes_a_second) { may_say_ = bytes_a_second; }

    // ---- what the bridge's loop hears of it: its log to its end, the rest until it is told to end.
    // False: it cannot be watched.
    bool hear_log(Loop& loop);
    bool hear_end(Loop& loop, std::function<void()> f);  // replaces the earlier `f`
    bool hear_requests(Loop& loop, std::function<void()> f);
    void ignore_requests() { on_request_ = {}; }   // they wait until it is heard again
    bool hear_mapper(Loop& loop, Loop::Handle f);  // after it has been met

    // What the bridge keeps of the region for its later client.
    std::vector<Grants::Run> reserved;
    std::uint64_t reserved_bytes() const;
    std::uint64_t held = 0;  // bytes of the host's memory while it waits; 0: not known yet

    // Bytes of host memory: its own, and the region's that it keeps for a client.
    std::uint64_t memory() const;
    // Bytes added since its client came.
    std::uint64_t own_data() const;
    // Limits its data to `bytes` beyond those at its start (0: no limit). No effect before its driver is open, and with
    // a wrapper, whose process is another. False: errno says why.
    bool limit_data(std::uint64_t bytes);
    // Limits its control group to that, beyond what was in use at its start (0: no limit). False: not possible.
    bool limit_group(std::uint64_t bytes);
    bool has_group() const { return !group_.empty(); }

  private:
    WorkerProcess() = default;
    void enter(State to);
    void write_down();
    std::string kept_name(const char* what) const;
    WorkerLog::Limits log_limits() const;
    WorkerLog::Say say() const;
    std::array<std::uint64_t, 6> statm() const;
    std::string describe_end(int status) const;

    struct Unmap {
        void operator()(Sheet* sheet) const;
    };

    struct UnmapKept {
        void operator()(KeptWorker* record) const;
    };

    State state_ = State::starting;
    bool was_warm_ = false;
    static inline const Kept no_keeper_;
    const Kept* kept_ = &no_keeper_;
    File record_file_;
    std::unique_ptr<KeptWorker, UnmapKept> record_;  // null: nothing is kept
    pid_t pid_ = -1;
    bool wrapped_ = false;
    File pidfd_, link_, errors_;
    std::unique_ptr<Sheet, Unmap> sheet_;
    WorkerLog log_;
    cage::Listener mapper_;  // for its mapper's questions
    std::string called_;     // in the log
    std::uint64_t may_say_ = 0;
    WorkersText* text_ = nullptr;
    std::vector<int> devices_;
    cage::Order order_;
    std::shared_ptr<cage::Groups> groups_;
    std::string group_;
    std::uint64_t bare_ = 0;  // bytes of memory in its group when its client came
    Clock::time_point dismissed_{};
    Loop::Watch on_log_, on_end_, on_request_, on_mapper_;  // after what they watch, so that they end first
};

}  // namespace barcuda
