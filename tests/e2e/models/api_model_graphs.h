// SPDX-License-Identifier: Apache-2.0
// api_model_graphs.h: what a lane of api_model.cu does with graphs, modules, threads and children.
#pragma once
#include "api_model_lane.h"

namespace {

// ---- graphs
void Lane::done(const Graph& g) {
    right();
    for (unsigned i = 0; i < g.nodes; ++i)
        if (g.words[i] != g.launches) die("node %u of a graph: launch %u of %u", i, g.words[i], g.launches);
}

void Lane::make_graph() {
    Graph& g = begin();
    CHECK(cudaGraphCreate(&g.graph, 0));
    std::vector<cudaGraphNode_t> nodes(1);
    cudaKernelNodeParams p{};
    p.gridDim = p.blockDim = dim3(1);
    void* words_of[] = {&g.words};
    p.func = reinterpret_cast<void*>(first_node);
    p.kernelParams = words_of;
    CHECK(cudaGraphAddKernelNode(&nodes[0], g.graph, nullptr, 0, &p));
    const unsigned all = 2 + static_cast<unsigned>(random_.below(most_nodes - 2));
    for (; g.nodes < all; ++g.nodes) {
        const auto a = static_cast<unsigned>(random_.below(g.nodes)), b = static_cast<unsigned>(random_.below(g.nodes));
        const cudaGraphNode_t before[] = {nodes[a], nodes[b]};
        const size_t count = a == b ? 1 : 2;
        cudaGraphNode_t fresh;
        unsigned self = g.nodes, turns = static_cast<unsigned>(random_.below(2000));
        switch (random_.below(8)) {
            case 0: {
                cudaHostNodeParams h{host_node, graph_call(g, self, a, b)};
                CHECK(cudaGraphAddHostNode(&fresh, g.graph, before, count, &h));
                break;
            }
            case 1:  // its word becomes that of the node before it
                CHECK(cudaGraphAddMemcpyNode1D(&fresh, g.graph, before, count, const_cast<unsigned*>(g.words + self),
                                               const_cast<unsigned*>(g.words + a), 4, cudaMemcpyDefault));
                break;
            case 2: {  // as a pair: an event on the way
                cudaGraphNode_t on_the_way;
                CHECK(cudaGraphAddEmptyNode(&on_the_way, g.graph, before, count));
                unsigned from = a, also = b;
                void* of[] = {&g.words, &self, &from, &also, &turns, &wrong_};
                p.func = reinterpret_cast<void*>(node);
                p.kernelParams = of;
                CHECK(cudaGraphAddKernelNode(&fresh, g.graph, &on_the_way, 1, &p));
                break;
            }
            default: {
                unsigned from = a, also = b;
                void* of[] = {&g.words, &self, &from, &also, &turns, &wrong_};
                p.func = reinterpret_cast<void*>(node);
                p.kernelParams = of;
                CHECK(cudaGraphAddKernelNode(&fresh, g.graph, before, count, &p));
                break;
            }
        }
        nodes.push_back(fresh);
    }
    CHECK(cudaGraphInstantiate(&g.exec, g.graph, 0));
}

void Lane::capture() {
    std::shared_lock one_of_many(captures, std::try_to_lock);
    if (!one_of_many) return;
    Stream *s = nullptr, *t = nullptr;
    for (Stream& x : streams_)
        if (!x.blocking) (s ? t : s) = &x;
    if (!s) return;
    Graph& g = begin();
    cudaEvent_t fork, join;  // its own: a captured event is no event to wait for
    CHECK(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming));
    CHECK(cudaEventCreateWithFlags(&join, cudaEventDisableTiming));
    CHECK(cudaStreamBeginCapture(s->stream,
                                 random_.one_in(2) ? cudaStreamCaptureModeThreadLocal : cudaStreamCaptureModeRelaxed));
    first_node<<<1, 1, 0, s->stream>>>(g.words);
    unsigned last[2] = {0, 0};  // of each branch
    const bool two = t && random_.one_in(2);
    if (two) {
        CHECK(cudaEventRecord(fork, s->stream));
        CHECK(cudaStreamWaitEvent(t->stream, fork, 0));
    }
    const unsigned all = 2 + static_cast<unsigned>(random_.below(most_nodes - 3));
    for (; g.nodes < all; ++g.nodes) {
        const int branch = two && random_.one_in(2);
        const cudaStream_t stream = (branch ? t : s)->stream;
        const unsigned before = last[branch], self = g.nodes;
        if (random_.one_in(6)) CHECK(cudaLaunchHostFunc(stream, host_node, graph_call(g, self, before, before)));
        else if (random_.one_in(6))
            CHECK(cudaMemcpyAsync(const_cast<unsigned*>(g.words + self), const_cast<unsigned*>(g.words + before), 4,
                                  cudaMemcpyDefault, stream));
        else node<<<1, 1, 0, stream>>>(g.words, self, before, before, 10, wrong_);
        last[branch] = self;
    }
    if (two) {
        CHECK(cudaEventRecord(join, t->stream));
        CHECK(cudaStreamWaitEvent(s->stream, join, 0));
    }
    const unsigned self = g.nodes++;
    node<<<1, 1, 0, s->stream>>>(g.words, self, last[0], last[1], 10, wrong_);
    launched();
    CHECK(cudaStreamEndCapture(s->stream, &g.graph));
    CHECK(cudaGraphInstantiate(&g.exec, g.graph, 0));
    CHECK(cudaEventDestroy(fork));
    CHECK(cudaEventDestroy(join));
}

// A launch of a graph comes behind its launches before, on whatever stream.
void Lane::launch(Stream& s) {
    if (graphs_.empty()) return make_graph();
    Graph& g = graphs_[random_.below(graphs_.size())];
    if (random_.one_in(4)) CHECK(cudaGraphUpload(g.exec, s.stream));
    CHECK(cudaGraphLaunch(g.exec, s.stream));
    ++g.launches;
    take_turn_behind<<<1, 1, 0, s.stream>>>(s.count, s.at++, g.words + g.nodes - 1, g.launches, wrong_);
    launched();
    if (random_.one_in(4)) {
        synchronize(s);
        if (g.words[0] != g.launches) die("a graph that was waited for: launch %u of %u", g.words[0], g.launches);
    }
}

// The next launch is as the graph is then; those before go on as they were.
void Lane::update() {
    if (graphs_.empty()) return;
    Graph& g = graphs_[random_.below(graphs_.size())];
    cudaGraphExecUpdateResultInfo info{};
    CHECK(cudaGraphExecUpdate(g.exec, g.graph, &info));
    if (random_.one_in(2)) return;
    cudaGraph_t clone;
    CHECK(cudaGraphClone(&clone, g.graph));
    CHECK(cudaGraphExecUpdate(g.exec, clone, &info));
    CHECK(cudaGraphDestroy(clone));
}

void Lane::destroy(Graph& g) {
    CHECK(cudaGraphExecDestroy(g.exec));
    CHECK(cudaGraphDestroy(g.graph));
}

void Lane::drop_graph() {
    if (graphs_.empty()) return;
    const size_t i = random_.below(graphs_.size());
    destroy(graphs_[i]);  // what runs, runs on
    gone_.push_back(graphs_[i]);
    graphs_.erase(graphs_.begin() + static_cast<long>(i));
}

// ---- modules
void Lane::use_module(Stream& s) {
    if (module_ && random_.one_in(2)) {
        CHECK(cudaEventSynchronize(bumped_));
        if (driver().unload(module_)) die("cuModuleUnload");
        module_ = nullptr;
    }
    if (!module_ && driver().load(&module_, module_text)) die("cuModuleLoadData");
    CUfunction bump;
    if (driver().function(&bump, module_, "bump")) die("cuModuleGetFunction");
    CHECK(cudaStreamWaitEvent(s.stream, bumped_, 0));  // one after the other, whatever the stream
    void* parameters[] = {&s.count};
    if (driver().launch(bump, 1, 1, 1, 1, 1, 1, 0, s.stream, parameters, nullptr)) die("cuLaunchKernel");
    ++s.at;
    CHECK(cudaEventRecord(bumped_, s.stream));
    take(s, 0);
}

// ---- threads and processes
void Lane::another_thread() {
    Word *const count = words(1), *const its_mark = words(1);
    const bool waits = random_.one_in(2);
    Stream& s = any();
    const int number = number_;
    std::thread([&, number] {
        lane = number;
        for (unsigned i = 0; i < 3; ++i)
            take_turn<<<1, 1, 0, cudaStreamPerThread>>>(count, i, its_mark, 0, 100, wrong_);
        launched();
        if (s.own || &s == &streams_[0]) take(s, 5);
        if (waits) {
            CHECK(cudaStreamSynchronize(cudaStreamPerThread));
            reached(count, 3);
        }
    }).join();
    left_.emplace_back(count, 3);
}

// It sees its parent's memory as it was, and changes its own.
void Lane::fork_child() {
    if (!forks) return;
    const pid_t child = fork();
    if (child < 0) die("fork: %s", strerror(errno));
    if (child == 0) {
        alarm(60);
        bool same = true;
        for (size_t i = 0; i < kept_bytes; i += 4096) same = same && kept_[i] == number_;
        memset(kept_, 0xee, kept_bytes);
        auto* block = static_cast<char*>(malloc(3 << 20));
        memset(block, 1, 3 << 20);
        free(block);
        _exit(same ? 0 : 3);
    }
    take(any(), 10);
    int status;
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR) die("waitpid: %s", strerror(errno));
    if (WIFSIGNALED(status)) die("a forked child ended by signal %d", WTERMSIG(status));
    if (WEXITSTATUS(status)) die("a forked child ended with status %d", WEXITSTATUS(status));
    for (size_t i = 0; i < kept_bytes; i += 4096)
        if (kept_[i] != number_) die("a child's write shows in its parent, at %zu", i);
}

}  // namespace
