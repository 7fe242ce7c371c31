// SPDX-License-Identifier: Apache-2.0
// eat.cc: sessions that take as much of one thing as there is: memory of the GPU, objects, images in parts, posted work
// behind a stream that is blocked, extents, what kernels print.
#include <memory>

#include "shm-device/queue/sync.h"
#include "tests/hostile/generator.h"
#include "tests/hostile/liars.h"

namespace barcuda::hostile {
namespace {

class Glutton {
  public:
    Glutton(const Behaviour& behaviour, Tally& tally, std::uint64_t seed)
        : behaviour_(behaviour),
          tally_(tally),
          random_(seed),
          session_(behaviour.patience),
          known_(tally.tokens),
          generator_(session_, known_, random_) {}

    End run() {
        struct Meal {
            Op op;
            std::uint64_t most;
            std::uint64_t bytes = 0;  // in the first word of its body, if it is there
            bool behind_a_wait = false;
        };
        static constexpr Meal meals[] = {
            {Op::cuMemAlloc_v2, 400, 256 << 20},
            {Op::cuMemAllocAsync, 400, 64 << 20},
            {Op::cuMemAllocPitch_v2, 2000},
            {Op::cuMemCreate, 4000},
            {Op::cuMemAddressReserve, 4000},
            {Op::cuArray3DCreate_v2, 3000},
            {Op::cuStreamCreateWithPriority, 2000},
            {Op::cuEventCreate, 20000},
            {Op::cuGraphCreate, 20000},
            {Op::cuGraphAddEmptyNode, 5000},
            {Op::load_module, 1000},
            {Op::link_create, 2000},
            {Op::image_part, 20000},
            {Op::image_begin, 20000},
            {Op::image_piece, 20000, 0, true},
            {Op::cuMemPoolCreate, 2000},
            {Op::export_memory, 5000},
            {Op::create_context, 100},
            {Op::release, 200},
            {Op::cublasCreate_v2, 100},
            {Op::copy_in, 20000, 0, true},
            {Op::cuMemsetD8Async, 20000, 0, true},
            {Op::write_fence, 20000, 0, true},
            {Op::launch, 5000, 0, true},
            {Op::launch_host, 2000, 0, true},
        };
        if (!session_.open(behaviour_.region).empty()) return End::no_channel;
        tally_.sessions.fetch_add(1, std::memory_order_relaxed);
        if (!generator_.begin()) return session_.ended() ? end() : End::no_memory;
        const Meal& meal = random_.pick(meals);
        for (unsigned n = 0; n < 60; ++n)  // what it needs: the generator knows
            if (const auto e = send(n % 2 ? generator_.next_op() : meal.op); e != End::finished) return e;
        if (meal.behind_a_wait) block();
        for (std::uint64_t n = 0; n < meal.most && !done(tally_); ++n)
            if (const auto e = send(meal.op, meal.bytes, meal.behind_a_wait); e != End::finished) return e;
        return end();
    }

  private:
    End end() const { return end_of(session_); }

    // A stream that is blocked: it waits for a value that is never written.
    void block() {
        Pending& p = pending_[session_.posted() % Session::depth];
        generator_.build(Op::cuStreamWaitValue32_v2, p, 0);
        std::uint64_t body[4] = {0, reinterpret_cast<std::uint64_t>(generator_.heap(8)), 0x7fffffff, 1};
        std::memcpy(session_.request_memory().data() + sizeof(RequestHead), body, sizeof body);
        p.answered = false;
        session_.post(p.request_bytes, 0);
        tally_.commands.fetch_add(1);
    }

    End send(Op op, std::uint64_t bytes = 0, bool only_post = false) {
        while (!session_.can_post()) {
            switch (session_.await()) {
                case Session::Found::reply: break;
                case Session::Found::ended: return end();
                default: return End::stuck;
            }
            for (; !session_.empty() && session_.look() == Session::Found::reply; session_.collect()) {
                Pending& p = pending_[session_.collected() % Session::depth];
                ReplyHead head{};
                Reader reply(session_.reply());
                if (!p.answered || !reply.get(head)) continue;
                const auto result = static_cast<CUresult>(head.result);
                auto& row = tally_.of(p.op);
                (result == CUDA_SUCCESS ? row.succeeded : row.failed).fetch_add(1, std::memory_order_relaxed);
                generator_.learn(p, result, session_.reply().subspan(sizeof head));
            }
        }
        Pending& p = pending_[session_.posted() % Session::depth];
        generator_.build(op, p, 0);
        if (bytes) std::memcpy(session_.request_memory().data() + sizeof(RequestHead), &bytes, sizeof bytes);
        if (only_post && row(op).how == How::post) p.answered = false;
        session_.post(p.request_bytes, p.answered ? p.reply_bytes : 0);
        tally_.commands.fetch_add(1, std::memory_order_relaxed);
        tally_.of(op).sent.fetch_add(1, std::memory_order_relaxed);
        return End::finished;
    }

    const Behaviour& behaviour_;
    Tally& tally_;
    Random random_;
    Session session_;
    Known known_;
    Generator generator_;
    Pending pending_[Session::depth];
};

}  // namespace

End eat(const Behaviour& behaviour, Tally& tally, std::uint64_t seed) {
    return std::make_unique<Glutton>(behaviour, tally, seed)->run();
}

}  // namespace barcuda::hostile
