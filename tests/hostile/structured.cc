// SPDX-License-Identifier: Apache-2.0
// structured.cc: sessions that send commands made from the table, collect the replies and learn from them; and the
// thread that changes bytes of commands which are posted already.
#include <time.h>

#include <memory>
#include <thread>

#include "shm-device/queue/sync.h"
#include "shm-device/queue/wait.h"
#include "tests/hostile/generator.h"
#include "tests/hostile/liars.h"

namespace barcuda::hostile {
namespace {

// Changes bytes of what lies posted: some for good, most for a moment.
class Flipper {
  public:
    Flipper(Session& session, Tally& tally, double lies, std::uint64_t seed)
        : session_(session),
          tally_(tally),
          lies_(lies),
          random_(seed),
          own_random_(seed + 1),
          thread_([this](const std::stop_token& stop) {
              while (!stop.stop_requested()) flip();
          }) {}
    // A command was posted there: this thread changes it, too, while the worker comes to it.
    void posted(std::span<std::byte> request) {
        bytes_.store(request.size(), std::memory_order_relaxed);
        at_.store(request.data(), std::memory_order_release);
        change(own_random_, request.data(), request.size());
    }

  private:
    void flip() {
        std::byte* const request = at_.exchange(nullptr, std::memory_order_acquire);
        if (!request) return ++idle_ % 64 ? std::this_thread::yield() : Os::nap(10'000);
        change(random_, request, bytes_.load(std::memory_order_relaxed));
    }

    void change(Random& random, std::byte* request, std::size_t bytes) {
        const bool stays = random.chance(lies_);
        for (std::uint64_t n = random.between(1, 4); n > 0; --n) {
            std::byte* at = request + random.below(std::max<std::size_t>(bytes, 1));
            if (random.chance(3))
                at = reinterpret_cast<std::byte*>(session_.channel().memory) + BARCUDA_RING_OFFSET +
                     random.below(BARCUDA_QUEUE_SIZE * 16);
            auto& byte = *reinterpret_cast<unsigned char*>(at);
            const auto bits = static_cast<unsigned char>(1 + random.below(255));
            std::atomic_ref(byte).fetch_xor(bits, std::memory_order_relaxed);
            tally_.flips.fetch_add(1, std::memory_order_relaxed);
            for (std::uint64_t pauses = random.below(200); pauses > 0; --pauses) __builtin_ia32_pause();
            if (!stays) std::atomic_ref(byte).fetch_xor(bits, std::memory_order_relaxed);
        }
    }

    Session& session_;
    Tally& tally_;
    const double lies_;
    Random random_, own_random_;
    std::atomic<std::byte*> at_{nullptr};
    std::atomic<std::size_t> bytes_{0};
    unsigned idle_ = 0;
    std::jthread thread_;
};

// A GPU fault: nothing that follows succeeds.
bool is_sticky(CUresult r) {
    return r == CUDA_ERROR_ILLEGAL_ADDRESS || r == CUDA_ERROR_LAUNCH_FAILED || r == CUDA_ERROR_MISALIGNED_ADDRESS ||
           r == CUDA_ERROR_ILLEGAL_INSTRUCTION || r == CUDA_ERROR_INVALID_ADDRESS_SPACE || r == CUDA_ERROR_INVALID_PC ||
           r == CUDA_ERROR_HARDWARE_STACK_ERROR || r == CUDA_ERROR_LAUNCH_TIMEOUT || r == CUDA_ERROR_ASSERT ||
           r == CUDA_ERROR_ECC_UNCORRECTABLE;
}

class Talk {
  public:
    Talk(const Behaviour& behaviour, Tally& tally, std::uint64_t seed)
        : behaviour_(behaviour),
          tally_(tally),
          seed_(seed),
          random_(seed),
          session_(behaviour.patience),
          known_(tally.tokens),
          generator_(session_, known_, random_) {}

    End run() {
        if (!session_.open(behaviour_.region).empty()) return End::no_channel;
        tally_.sessions.fetch_add(1, std::memory_order_relaxed);
        if (!generator_.begin()) return session_.ended() ? ended() : End::no_memory;
        std::optional<Flipper> flipper;
        if (behaviour_.flips) flipper.emplace(session_, tally_, behaviour_.lies, seed_ + 1);
        const std::uint32_t failures = count(session_.channel().status().posted_count);
        const End end = talk(flipper);
        flipper.reset();
        tally_.posted_failures.fetch_add(count(session_.channel().status().posted_count) - failures);
        return end;
    }

  private:
    static std::uint32_t count(const barcuda_u64& word) { return static_cast<std::uint32_t>(observe(word)); }

    End talk(std::optional<Flipper>& flipper) {
        const bool flips = flipper.has_value();
        for (;;) {
            while (session_.can_post() && sent_ < behaviour_.session_commands && !done(tally_)) {
                Pending& p = pending_[session_.posted() % Session::depth];
                const Op op = behaviour_.only.empty() || random_.chance(50) ? generator_.next_op()
                                                                            : random_.pick(behaviour_.only);
                generator_.build(op, p, flips ? 0 : behaviour_.lies);
                const std::span<std::byte> request = session_.request_memory().first(p.request_bytes);
                last_[sent_++ % std::size(last_)] = {op, p.lie};
                tally_.commands.fetch_add(1, std::memory_order_relaxed);
                tally_.of(op).sent.fetch_add(1, std::memory_order_relaxed);
                if (p.lie) tally_.lies.fetch_add(1, std::memory_order_relaxed);
                session_.post(p.request_bytes, p.reply_bytes);
                if (flips) flipper->posted(request);
            }
            if (session_.empty()) return End::finished;
            switch (session_.await()) {
                case Session::Found::reply: break;
                case Session::Found::ended: return ended();
                default: return stuck();
            }
            for (; !session_.empty() && session_.look() == Session::Found::reply; session_.collect())
                if (!take(pending_[session_.collected() % Session::depth])) return End::faulted;
        }
    }

    // False: the GPU has faulted.
    bool take(Pending& p) {
        ReplyHead head{};
        Reader reply(session_.reply());
        if (!p.answered || !reply.get(head)) return true;
        const auto result = static_cast<CUresult>(head.result);
        auto& row = tally_.of(p.op);
        (result == CUDA_SUCCESS ? row.succeeded : row.failed).fetch_add(1, std::memory_order_relaxed);
        generator_.learn(p, result, session_.reply().subspan(sizeof head));
        return !is_sticky(result);
    }

    std::string story() const {
        std::string text;
        for (std::size_t i = 0; i < std::size(last_); ++i)
            if (const auto& [op, lie] = last_[(sent_ + i) % std::size(last_)]; op != Op::count)
                text += std::string(lie ? " !" : " ") + op_names[static_cast<std::size_t>(op)].data();
        return text;
    }
    End ended() {
        if (session_.state() == BARCUDA_STATE_DEAD) {
            std::fprintf(stderr, "hostile: session %lu: %s; the last commands, lies marked:%s\n", seed_,
                         session_.message().c_str(), story().c_str());
            return End::dead;
        }
        return session_.state() == BARCUDA_STATE_GONE ? End::gone : End::refused;
    }
    End stuck() {
        const Op op = pending_[session_.collected() % Session::depth].op;
        tally_.stuck_in[static_cast<std::size_t>(op)].fetch_add(1, std::memory_order_relaxed);
        return End::stuck;
    }

    const Behaviour& behaviour_;
    Tally& tally_;
    const std::uint64_t seed_;
    Random random_;
    Session session_;
    Known known_;
    Generator generator_;
    Pending pending_[Session::depth];
    struct {
        Op op = Op::count;
        bool lie = false;
    } last_[24];
    std::uint64_t sent_ = 0;
};

}  // namespace

bool done(const Tally& tally) {
    if (tally.stop.load(std::memory_order_relaxed)) return true;
    if (tally.most_commands && tally.commands.load(std::memory_order_relaxed) >= tally.most_commands) return true;
    if (tally.ends_at == 0) return false;
    timespec now;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return static_cast<std::uint64_t>(now.tv_sec) >= tally.ends_at;
}

End structured(const Behaviour& behaviour, Tally& tally, std::uint64_t seed) {
    return std::make_unique<Talk>(behaviour, tally, seed)->run();
}

}  // namespace barcuda::hostile
