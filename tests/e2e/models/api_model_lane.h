// SPDX-License-Identifier: Apache-2.0
// api_model_lane.h: one thread of api_model.cu: its streams and events, and what it knows that must be done when.
#pragma once
#include "api_model_common.h"

namespace {

class Lane {
  public:
    explicit Lane(int number) : random_(dice_of(number)), number_(number) {
        CHECK(cudaDeviceGetStreamPriorityRange(&least_, &greatest_));
        CHECK(cudaHostAlloc(&wrong_, sizeof(Wrong), cudaHostAllocMapped));
        memset(wrong_, 0, sizeof *wrong_);
        for (cudaStream_t s : {cudaStreamLegacy, cudaStreamPerThread}) {
            adopt(streams_.emplace_back(), s);
            streams_.back().own = false;
            streams_.back().blocking = true;
        }
        for (int i = 0; i < 4; ++i) create(streams_.emplace_back());
        for (int i = 0; i < 6; ++i) create(events_.emplace_back());
        CHECK(cudaEventCreateWithFlags(&bumped_, cudaEventDisableTiming));
        kept_ = static_cast<unsigned char*>(malloc(kept_bytes));
        memset(kept_, number, kept_bytes);
    }
    ~Lane() {
        everything();
        for (Graph& g : graphs_) destroy(g);
        for (Event& e : events_) CHECK(cudaEventDestroy(e.event));
        for (Stream& s : streams_)
            if (s.own) CHECK(cudaStreamDestroy(s.stream));
        if (module_ && driver().unload(module_)) die("cuModuleUnload");
        CHECK(cudaEventDestroy(bumped_));
        CHECK(cudaFreeHost(wrong_));
        free(kept_);
    }

    void act() {
        ++things;
        Stream& s = any();
        const size_t what = random_.below(1000);
        if (what < 250) return take(s, random_.one_in(10) ? random_.below(1 << 14) : random_.below(64));
        if (what < 290) return gate(s);
        if (what < 340) return call_host(s);
        if (what < 400) return set_mark(s);
        if (what < 480) return record(s, event());
        if (what < 550) return wait_event(s);
        if (what < 590) return follow(s);
        if (what < 620) return post(s);
        if (what < 670) return synchronize(s);
        if (what < 720) return synchronize(event());
        if (what < 740) return query(s);
        if (what < 750) return elapsed();
        if (what < 785) return allocate_in_order(s);
        if (what < 805) return allocate();
        if (what < 815) return allocate_host();
        if (what < 835) return renew(event());
        if (what < 855) return renew(streams_[2 + random_.below(streams_.size() - 2)]);
        if (what < 880) return make_graph();
        if (what < 905) return capture();
        if (what < 955) return launch(s);
        if (what < 965) return update();
        if (what < 970) return drop_graph();
        if (what < 975) return use_module(s);
        if (what < 980) return managed(s);
        if (what < 985) return another_thread();
        if (what < 988) return print(s);
        if (what < 990) return fork_child();
        if (what < 995) return synchronize_legacy();
        everything();
    }

  private:
    // ---- words that host and device see, never used again
    Word* words(unsigned n) {
        if (!arena_ || used_ + n > Arenas::words) {
            arena_ = arenas.take();
            used_ = 0;
        }
        Word* at = arena_ + used_;
        used_ += n;
        return at;
    }
    void adopt(Stream& s, cudaStream_t stream) {
        s = Stream{};
        s.stream = stream;
        s.count = words(1);
        s.mark = words(1);
    }
    void create(Stream& s) {
        const bool blocking = random_.one_in(2);
        const unsigned flags = blocking ? cudaStreamDefault : cudaStreamNonBlocking;
        cudaStream_t stream;
        if (random_.one_in(2)) CHECK(cudaStreamCreateWithFlags(&stream, flags));
        else CHECK(cudaStreamCreateWithPriority(&stream, flags, random_.one_in(2) ? least_ : greatest_));
        adopt(s, stream);
        s.blocking = blocking;
    }
    void create(Event& e) {
        e = Event{};
        e.timed = random_.one_in(2);
        CHECK(cudaEventCreateWithFlags(&e.event, e.timed ? cudaEventDefault : cudaEventDisableTiming));
    }
    Stream& any() { return streams_[random_.one_in(6) ? random_.below(2) : 2 + random_.below(streams_.size() - 2)]; }
    Event& event() { return events_[random_.below(events_.size())]; }

    // ---- what is checked after a wait
    void right() {
        if (wrong_->check) die("on the device, check %u: %u, not %u", wrong_->check, wrong_->got, wrong_->want);
    }
    void done(const Stream& s) {
        right();
        if (*s.count != s.at) die("a stream that was waited for has done %u of %u", *s.count, s.at);
        if (*s.mark != s.mark_is) die("a stream that was waited for has mark %u, not %u", *s.mark, s.mark_is);
    }
    void reached(Word* count, unsigned least) {
        right();
        if (*count < least) die("a stream has done %u where an event says %u", *count, least);
    }

    // ---- things that are given to a stream
    void launched() { CHECK(cudaGetLastError()); }
    void take(Stream& s, size_t turns) {
        take_turn<<<1, 1, 0, s.stream>>>(s.count, s.at++, s.mark, s.mark_is, static_cast<unsigned>(turns), wrong_);
        launched();
    }
    void gate(Stream& s) {
        Word* const word = words(1);
        take_turn_at_gate<<<1, 1, 0, s.stream>>>(s.count, s.at++, word, wrong_);
        launched();
        opener->open_soon(word);
    }
    void print(Stream& s) {
        if (!prints) return;
        take_turn_printing<<<1, 1, 0, s.stream>>>(s.count, s.at++, wrong_);
        launched();
        ++printed;
    }
    void call_host(Stream& s) {
        auto* c = &calls_.emplace_back(Call{s.count, nullptr, nullptr, s.at++, false, number_});
        if (random_.one_in(2)) {
            CHECK(cudaLaunchHostFunc(
                s.stream, [](void* data) { called(*static_cast<Call*>(data)); }, c));
            return;
        }
        const auto callback = [](cudaStream_t, cudaError_t status, void* data) {
            if (status) die("a callback is told of an error: %s", cudaGetErrorString(status));
            called(*static_cast<Call*>(data));
        };
        CHECK(cudaStreamAddCallback(s.stream, callback, c, 0));
    }
    void set_mark(Stream& s) {
        s.mark_is = static_cast<unsigned>(random_() & 0x7f) * 0x01010101u;
        CHECK(cudaMemsetAsync(const_cast<unsigned*>(s.mark), static_cast<int>(s.mark_is & 0xff), 4, s.stream));
        if (random_.one_in(2)) take(s, 0);
    }
    void record(Stream& s, Event& e) {
        CHECK(cudaEventRecord(e.event, s.stream));
        e.recorded = true;
        e.count = s.count;
        e.least = s.at;
    }
    void wait_event(Stream& s) {
        Event& e = event();
        CHECK(cudaStreamWaitEvent(s.stream, e.event, 0));
        if (!e.recorded) return;
        take_turn_behind<<<1, 1, 0, s.stream>>>(s.count, s.at++, e.count, e.least, wrong_);
        launched();
        if (random_.one_in(8)) renew(e);  // waits for it go on
    }
    // The default stream comes behind all blocking ones, and they behind it.
    void follow(Stream& s) {
        Stream& legacy = streams_[0];
        if (&s == &legacy || !s.blocking) return take(s, 8);
        Stream& first = random_.one_in(2) ? s : legacy;
        Stream& second = &first == &s ? legacy : s;
        take(first, random_.below(1000));
        take_turn_behind<<<1, 1, 0, second.stream>>>(second.count, second.at++, first.count, first.at, wrong_);
        launched();
    }
    // An event for all lanes to see; and behind that of another.
    void post(Stream& s) {
        Posted& p = board[random_.below(std::size(board))];
        std::lock_guard lock(p.mutex);
        if (p.event) {
            CHECK(cudaStreamWaitEvent(s.stream, p.event, 0));
            take_turn_behind<<<1, 1, 0, s.stream>>>(s.count, s.at++, p.count, p.least, wrong_);
            launched();
        }
        if (p.event && random_.one_in(2)) {
            CHECK(cudaEventDestroy(p.event));
            p.event = nullptr;
        }
        if (!p.event) CHECK(cudaEventCreateWithFlags(&p.event, cudaEventDisableTiming));
        CHECK(cudaEventRecord(p.event, s.stream));
        p.count = s.count;
        p.least = s.at;
    }

    // ---- waits
    void synchronize(Stream& s) {
        CHECK(cudaStreamSynchronize(s.stream));
        done(s);
    }
    void synchronize(Event& e) {
        if (random_.one_in(2)) {
            CHECK(cudaEventSynchronize(e.event));
        } else {
            for (cudaError_t r; (r = cudaEventQuery(e.event));)
                if (r != cudaErrorNotReady) CHECK(r);
                else if (random_.one_in(3)) return;
        }
        if (e.recorded) reached(e.count, e.least);
    }
    void query(Stream& s) {
        for (;;) {
            const cudaError_t r = cudaStreamQuery(s.stream);
            if (r == cudaSuccess) return done(s);
            if (r != cudaErrorNotReady) CHECK(r);
            if (random_.one_in(20)) return;
        }
    }
    void elapsed() {
        Event &a = event(), &b = event();
        if (!a.timed || !b.timed || !a.recorded || !b.recorded || &a == &b) return;
        float milliseconds = -1;
        const cudaError_t r = cudaEventElapsedTime(&milliseconds, a.event, b.event);
        if (r == cudaErrorNotReady) return;
        CHECK(r);
        if (a.count == b.count && a.least < b.least && milliseconds < 0)
            die("%g ms between two events of one stream", milliseconds);
        reached(a.count, a.least);
        reached(b.count, b.least);
    }
    // Waits for all blocking streams.
    void synchronize_legacy() {
        CHECK(cudaStreamSynchronize(cudaStreamLegacy));
        done(streams_[0]);
        // (Their work comes before what is given to it: so something is.)
        take(streams_[0], 0);
        CHECK(cudaStreamSynchronize(cudaStreamLegacy));
        for (const Stream& s : streams_)
            if (s.blocking) done(s);
    }
    void everything() {
        {
            std::unique_lock alone(captures);
            CHECK(cudaDeviceSynchronize());
        }
        for (const Stream& s : streams_) done(s);
        for (const Graph& g : graphs_) done(g);
        for (const auto& [count, at] : left_)
            if (*count != at) die("a destroyed stream has done %u of %u", *count, at);
        left_.clear();
        calls_.clear();
        for (const Graph& g : gone_) done(g);
        gone_.clear();
    }

    void allocate_in_order(Stream& s);
    void allocate();
    void allocate_host();
    void managed(Stream& s);

    // ---- old for new, while work is under way
    void renew(Event& e) {
        CHECK(cudaEventDestroy(e.event));
        create(e);
    }
    void renew(Stream& s) {
        CHECK(cudaStreamDestroy(s.stream));
        left_.emplace_back(s.count, s.at);
        create(s);
    }

    void done(const Graph& g);
    static constexpr unsigned most_nodes = 12;
    Graph& begin() {
        if (graphs_.size() == 4) drop_graph();
        Graph& g = graphs_.emplace_back();
        g.words = words(most_nodes);
        g.nodes = 1;
        return g;
    }
    Call* graph_call(const Graph& g, unsigned self, unsigned a, unsigned b) {
        return &graph_calls_.emplace_back(Call{g.words, g.words + a, g.words + b, self, true, number_});
    }
    static void host_node(void* data) { called(*static_cast<Call*>(data)); }

    void make_graph();

    void capture();
    void launch(Stream& s);
    void update();
    void destroy(Graph& g);
    void drop_graph();

    void use_module(Stream& s);

    void another_thread();
    void fork_child();

    static constexpr size_t kept_bytes = 1 << 20;
    Random random_;
    const int number_;
    int least_ = 0, greatest_ = 0;
    Wrong* wrong_ = nullptr;
    Word* arena_ = nullptr;
    unsigned used_ = 0;           // words of it
    std::deque<Stream> streams_;  // [0] the legacy default stream, [1] this thread's
    std::deque<Event> events_;
    std::deque<Graph> graphs_;
    std::vector<Graph> gone_;                       // graphs that were destroyed since all was last done
    std::vector<std::pair<Word*, unsigned>> left_;  // streams, too
    std::deque<Call> calls_, graph_calls_;
    CUmodule module_ = nullptr;
    cudaEvent_t bumped_ = nullptr;  // behind its last launch
    unsigned char* kept_ = nullptr;
};

}  // namespace
