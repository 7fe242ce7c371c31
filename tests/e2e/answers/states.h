// SPDX-License-Identifier: Apache-2.0
// states.h: each call of the list in each state: before cuInit, without a context, after faults, in a host function, in
// a
// forked child, while streams capture.
#pragma once
#include "things.h"

namespace {

inline void ask_calls(Things& t) {
    for (const Call& c : calls) {
        question(c.name, [&] {
            const string code = number(c.make(t));
            return code + " peek=" + number(cudaPeekAtLastError());
        });
    }
}

// What needs no object, with the driver alone: nothing has called the runtime.
inline void ask_driver_calls(Things& t) {
    for (const Call& c : calls)
        if (!strncmp(c.name, "cuda", 4) == 0) question(c.name, [&] { return number(c.make(t)); });
}

inline void before_init() {
    Things t;
    ask_driver_calls(t);
}
inline void without_context() {
    cuInit(0);
    Things t;
    ask_driver_calls(t);
}
inline void after_pop() {
    Things t;
    start();
    t.make();
    CUcontext c;
    cuCtxPopCurrent(&c);
    cuCtxSetCurrent(nullptr);
    ask_driver_calls(t);
}
// The context is destroyed, and stays current.
inline void after_destroy() {
    cuInit(0);
    CUcontext c;
    cuCtxCreate(&c, nullptr, 0, 0);
    Things t;
    t.make();
    cuCtxDestroy(c);
    ask_driver_calls(t);
}
inline void after_good_calls() {
    Things t;
    start();
    t.make();
    ask_calls(t);
}

inline void cause(int what, Things& t) {
    if (what == 4) {
        cudaFree(nullptr);
        cuLaunchKernel(t.function, 1, 1, 1, 1, 1, 1, 1 << 30, nullptr, nullptr, nullptr);
        return;
    }
    fault<<<1, 1>>>(what, t.device);
}
inline void after_fault(int what) {
    Things t;
    start();
    t.make();
    cause(what, t);
    question("wait", [&] { return number(cudaDeviceSynchronize()); });
    if (ask::skipped) cudaDeviceSynchronize();
    question("last", [&] { return number(cudaGetLastError()); });
    question("last_again", [&] { return number(cudaGetLastError()); });
    question("peek", [&] { return number(cudaPeekAtLastError()); });
    ask_calls(t);
    question("cudaDeviceReset", [&] { return number(cudaDeviceReset()); });
    question("behind_peek", [&] { return number(cudaPeekAtLastError()); });
    question("behind_last", [&] { return number(cudaGetLastError()); });
    question("behind_malloc", [&] {
        void* p;
        return number(cudaMalloc(&p, 64));
    });
    question("behind_synchronize", [&] { return number(cudaDeviceSynchronize()); });
    question("behind_launch", [&] {
        touch<<<1, 1>>>(nullptr);
        return number(cudaGetLastError());
    });
    question("behind_launch_wait", [&] { return number(cudaDeviceSynchronize()); });
}
// An assertion of the driver's own calls, without the runtime.
inline void after_fault_first(int what) {
    Things t;
    start();
    t.make();
    cause(what, t);
    question("query", [&] {
        cudaError_t heard;
        while ((heard = cudaStreamQuery(nullptr)) == cudaErrorNotReady) {}
        return number(heard);
    });
    question("copy", [&] { return kept(cudaMemcpy(scratch, t.device, 4, cudaMemcpyDeviceToHost)); });
    question("last", [&] { return number(cudaGetLastError()); });
    question("driver", [&] { return number(cuCtxSynchronize()); });
    question("last_behind_driver", [&] { return number(cudaGetLastError()); });
    question("primary_reset", [&] { return number(cuDevicePrimaryCtxReset(0)); });
    question("behind", [&] { return number(cuCtxSynchronize()); });
    question("free_null", [&] { return kept(cudaFree(nullptr)); });
    question("malloc", [&] {
        void* p;
        return kept(cudaMalloc(&p, 64));
    });
}

// ---- inside of a host function
struct Inside {
    Things* things;
    const Call* call;
    int heard;
};
inline void CUDA_CB from_inside(void* p) {
    Inside* const in = static_cast<Inside*>(p);
    in->heard = in->call->make(*in->things);
}
inline void CUDA_CB from_callback(CUstream, CUresult, void* p) { from_inside(p); }
inline void in_host_function() {
    Things t;
    start();
    t.make();
    cudaStream_t s;
    cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking);
    for (const Call& c : calls) {
        question(c.name, [&] {
            Inside in{&t, &c, -1};
            const int rc = cuLaunchHostFunc(s, from_inside, &in);
            const int wait = cuStreamSynchronize(s);
            return number(rc) + " inside=" + number(in.heard) + " wait=" + number(wait);
        });
    }
    question("callback", [&] {
        Inside in{&t, &calls[0], -1};
        const int rc = cuStreamAddCallback(s, from_callback, &in, 0);
        cuStreamSynchronize(s);
        return number(rc) + " inside=" + number(in.heard);
    });
    question("null", [&] { return number(cuLaunchHostFunc(s, nullptr, nullptr)); });
    question("null_runtime", [&] { return kept(cudaLaunchHostFunc(s, nullptr, nullptr)); });
    question("callback_null", [&] { return number(cuStreamAddCallback(s, nullptr, nullptr, 0)); });
    question("callback_flags", [&] { return number(cuStreamAddCallback(s, nothing_either, nullptr, 1)); });
    question("callback_null_runtime", [&] { return kept(cudaStreamAddCallback(s, nullptr, nullptr, 0)); });
}

// ---- in a forked child
inline void after_fork(int how) {
    Things t;
    if (how) {
        start();
        t.make();
    } else {
        cuInit(0);
    }
    for (const Call& c : calls) {
        question(c.name, [&]() -> string {
            int ends[2];
            if (pipe(ends)) return "no pipe";
            const pid_t child = fork();
            if (!child) {
                alarm(20);
                int heard = c.make(t);
                if (write(ends[1], &heard, sizeof heard) < 0) _exit(1);
                _exit(0);
            }
            close(ends[1]);
            int heard = -1, status = 0;
            const bool told = read(ends[0], &heard, sizeof heard) == sizeof heard;
            close(ends[0]);
            waitpid(child, &status, 0);
            if (!told) return WIFSIGNALED(status) ? "crash:" + number(WTERMSIG(status)) : "nothing";
            return number(heard);
        });
    }
}

// ---- captures
enum class Caller { same, relaxed_same, thread_local_same, other, other_relaxed };
constexpr const char* caller_names[] = {"same", "same_relaxed", "same_local", "other", "other_relaxed"};
constexpr const char* mode_names[] = {"global", "local", "relaxed"};

inline int by(Caller caller, const Call& c, Things& t) {
    const auto exchanged = [&](CUstreamCaptureMode mode) {
        cuThreadExchangeStreamCaptureMode(&mode);
        const int heard = c.make(t);
        cuThreadExchangeStreamCaptureMode(&mode);
        return heard;
    };
    CUcontext context;
    cuCtxGetCurrent(&context);
    int heard = -1;
    switch (caller) {
        case Caller::same: return c.make(t);
        case Caller::relaxed_same: return exchanged(CU_STREAM_CAPTURE_MODE_RELAXED);
        case Caller::thread_local_same: return exchanged(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
        case Caller::other:
            std::thread([&] {
                cuCtxSetCurrent(context);
                heard = c.make(t);
            }).join();
            break;
        case Caller::other_relaxed:
            std::thread([&] {
                cuCtxSetCurrent(context);
                heard = exchanged(CU_STREAM_CAPTURE_MODE_RELAXED);
            }).join();
            break;
    }
    return heard;
}

inline string ended(Things& t, const string& heard) {
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    const int asked = cuStreamIsCapturing(t.stream, &status);
    CUgraph graph = nullptr;
    const int end = cuStreamEndCapture(t.stream, &graph);
    size_t nodes = 0;
    if (graph) cuGraphGetNodes(graph, nullptr, &nodes);
    string said = heard + " is=" + number(asked) + "," + number(status) + " end=" + number(end);
    said += graph ? " nodes=" + number(nodes) : " none";
    if (graph) cuGraphDestroy(graph);
    cudaGetLastError();
    return said;
}

inline void capture(int mode, Caller caller) {
    Things t;
    start();
    for (const Call& c : calls) {
        question(c.name, [&] {
            t.make();
            cuStreamBeginCapture(t.stream, static_cast<CUstreamCaptureMode>(mode));
            const string said = ended(t, number(by(caller, c, t)));
            t.release();
            return said;
        });
    }
}

// A call that uses the capturing stream itself.
inline void capture_itself(int mode) {
    Things t;
    start();
    for (const Call& c : calls) {
        question(c.name, [&] {
            t.make();
            cudaStreamDestroy(t.other);
            t.other = t.stream;
            cuStreamBeginCapture(t.stream, static_cast<CUstreamCaptureMode>(mode));
            const string said = ended(t, number(c.make(t)));
            t.other = nullptr;
            t.release();
            return said;
        });
    }
}
// A blocking stream captures, which the legacy stream would wait for.
inline void capture_blocking(int mode) {
    Things t;
    start();
    for (const Call& c : calls) {
        question(c.name, [&] {
            t.make();
            cudaStreamDestroy(t.stream);
            cudaStreamCreate(&t.stream);
            cuStreamBeginCapture(t.stream, static_cast<CUstreamCaptureMode>(mode));
            const string said = ended(t, number(c.make(t)));
            t.release();
            return said;
        });
    }
}

inline void capture_ends() {
    Things t;
    start();
    t.make();
    cudaGraph_t g = nullptr;
    question("end_none", [&] { return kept(cudaStreamEndCapture(t.stream, &g)); });
    question("end_null", [&] {
        cudaStreamBeginCapture(t.stream, cudaStreamCaptureModeRelaxed);
        const string a = kept(cudaStreamEndCapture(t.stream, nullptr));
        return a + " " + kept(cudaStreamEndCapture(t.stream, &g));
    });
    question("begin_legacy", [&] { return kept(cudaStreamBeginCapture(nullptr, cudaStreamCaptureModeRelaxed)); });
    question("begin_per_thread", [&] {
        const string a = kept(cudaStreamBeginCapture(cudaStreamPerThread, cudaStreamCaptureModeRelaxed));
        return a + " " + kept(cudaStreamEndCapture(cudaStreamPerThread, &g));
    });
    question("begin_twice", [&] {
        const string a = kept(cudaStreamBeginCapture(t.stream, cudaStreamCaptureModeRelaxed));
        const string b = kept(cudaStreamBeginCapture(t.stream, cudaStreamCaptureModeRelaxed));
        return a + " " + b + " " + kept(cudaStreamEndCapture(t.stream, &g));
    });
    question("begin_mode", [&] {
        const string a = kept(cudaStreamBeginCapture(t.stream, static_cast<cudaStreamCaptureMode>(7)));
        return a + " " + kept(cudaStreamEndCapture(t.stream, &g));
    });
    for (int mode = 0; mode < 3; ++mode) {
        question(string("end_other_thread_") + mode_names[mode], [&] {
            cudaStreamBeginCapture(t.stream, static_cast<cudaStreamCaptureMode>(mode));
            string a;
            std::thread([&] { a = kept(cudaStreamEndCapture(t.stream, &g)); }).join();
            return a + " " + kept(cudaStreamEndCapture(t.stream, &g));
        });
        question(string("fork_unjoined_") + mode_names[mode], [&] {
            cudaStreamBeginCapture(t.stream, static_cast<cudaStreamCaptureMode>(mode));
            cudaEventRecord(t.second, t.stream);
            cudaStreamWaitEvent(t.other, t.second, 0);
            touch<<<1, 1, 0, t.other>>>(nullptr);
            const string a = kept(cudaGetLastError());
            return a + " " + kept(cudaStreamEndCapture(t.stream, &g));
        });
        question(string("end_on_joined_") + mode_names[mode], [&] {
            cudaStreamBeginCapture(t.stream, static_cast<cudaStreamCaptureMode>(mode));
            cudaEventRecord(t.second, t.stream);
            cudaStreamWaitEvent(t.other, t.second, 0);
            const string a = kept(cudaStreamEndCapture(t.other, &g));
            return a + " " + kept(cudaStreamEndCapture(t.stream, &g));
        });
        question(string("query_captured_event_") + mode_names[mode], [&] {
            cudaStreamBeginCapture(t.stream, static_cast<cudaStreamCaptureMode>(mode));
            cudaEventRecord(t.second, t.stream);
            const string a = kept(cudaEventQuery(t.second));
            return a + " " + kept(cudaStreamEndCapture(t.stream, &g));
        });
        question(string("sync_captured_event_") + mode_names[mode], [&] {
            cudaStreamBeginCapture(t.stream, static_cast<cudaStreamCaptureMode>(mode));
            cudaEventRecord(t.second, t.stream);
            const string a = kept(cudaEventSynchronize(t.second));
            return a + " " + kept(cudaStreamEndCapture(t.stream, &g));
        });
        question(string("destroy_capturing_") + mode_names[mode], [&] {
            cudaStream_t s;
            cudaStreamCreate(&s);
            cudaStreamBeginCapture(s, static_cast<cudaStreamCaptureMode>(mode));
            return kept(cudaStreamDestroy(s));
        });
        question(string("elapsed_captured_") + mode_names[mode], [&] {
            cudaStreamBeginCapture(t.stream, static_cast<cudaStreamCaptureMode>(mode));
            cudaEventRecord(t.timed[0], t.stream);
            float ms;
            const string a = kept(cudaEventElapsedTime(&ms, t.timed[0], t.timed[1]));
            const string b = kept(cudaStreamEndCapture(t.stream, &g));
            cudaEventRecord(t.timed[0], t.other);
            return a + " " + b;
        });
        question(string("exchange_") + mode_names[mode], [&] {
            cudaStreamCaptureMode m = static_cast<cudaStreamCaptureMode>(mode);
            const string a = kept(cudaThreadExchangeStreamCaptureMode(&m));
            const string was = number(m);
            cudaThreadExchangeStreamCaptureMode(&m);
            return a + " " + was;
        });
    }
    question("exchange_null", [&] { return kept(cudaThreadExchangeStreamCaptureMode(nullptr)); });
    question("exchange_bad", [&] {
        cudaStreamCaptureMode m = static_cast<cudaStreamCaptureMode>(9);
        return kept(cudaThreadExchangeStreamCaptureMode(&m));
    });
    question("is_null", [&] { return kept(cudaStreamIsCapturing(t.stream, nullptr)); });
    question("to_graph_null", [&] {
        return kept(
            cudaStreamBeginCaptureToGraph(t.stream, nullptr, nullptr, nullptr, 0, cudaStreamCaptureModeRelaxed));
    });
    question("update_none",
             [&] { return kept(cudaStreamUpdateCaptureDependencies(t.stream, nullptr, nullptr, 0, 0)); });
}

}  // namespace
