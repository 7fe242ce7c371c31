// SPDX-License-Identifier: Apache-2.0
// streams.h: streams and events in each of their states.
#pragma once
#include "things.h"

namespace {

// ---- streams and events
inline void streams_and_events() {
    start();
    ask::looks_behind = true;
    cudaStream_t s = nullptr;
    cudaEvent_t e = nullptr, untimed = nullptr, fresh = nullptr, second = nullptr;
    cudaStreamCreate(&s);
    cudaEventCreate(&e);
    cudaEventCreate(&second);
    cudaEventCreateWithFlags(&untimed, cudaEventDisableTiming);
    cudaEventCreate(&fresh);
    cudaEventRecord(e, s);
    cudaEventRecord(second, s);
    cudaEventRecord(untimed, s);
    cudaStreamSynchronize(s);
    for (unsigned flags = 0; flags < 16; ++flags) {
        question("stream_flags_" + number(flags), [&] {
            cudaStream_t t = nullptr;
            const string a = kept(cudaStreamCreateWithFlags(&t, flags));
            return a;
        });
        question("event_flags_" + number(flags), [&] {
            cudaEvent_t t = nullptr;
            return kept(cudaEventCreateWithFlags(&t, flags));
        });
        question("record_flags_" + number(flags), [&] { return kept(cudaEventRecordWithFlags(fresh, s, flags)); });
        question("wait_flags_" + number(flags), [&] { return kept(cudaStreamWaitEvent(s, e, flags)); });
        question("driver_record_flags_" + number(flags),
                 [&] { return number(cuEventRecordWithFlags(fresh, s, flags)); });
        question("driver_wait_flags_" + number(flags), [&] { return number(cuStreamWaitEvent(s, e, flags)); });
    }
    for (int priority : {-100, -6, -5, -1, 0, 1, 100})
        question("priority_" + number(priority), [&] {
            cudaStream_t t = nullptr;
            int p = 77;
            const string a = kept(cudaStreamCreateWithPriority(&t, 1, priority));
            if (t) cudaStreamGetPriority(t, &p);
            return a + " " + number(p);
        });
    struct Named {
        const char* name;
        cudaStream_t s;
    };
    cudaStream_t gone;
    cudaStreamCreate(&gone);
    const cudaStream_t destroyed = gone;
    cudaStreamDestroy(gone);
    const Named all[] = {{"null", nullptr},
                         {"legacy", cudaStreamLegacy},
                         {"per_thread", cudaStreamPerThread},
                         {"own", s},
                         {"destroyed", destroyed}};
    for (const Named& n : all) {
        const string at = string(n.name) + "/";
        if (n.s == destroyed && n.s) {  // undefined: native ends here or answers
            question(at + "query", [&] { return kept(once_ready([&] { return cudaStreamQuery(n.s); })); });
            question(at + "synchronize", [&] { return kept(cudaStreamSynchronize(n.s)); });
            question(at + "destroy", [&] { return kept(cudaStreamDestroy(n.s)); });
            continue;
        }
        question(at + "query", [&] { return kept(once_ready([&] { return cudaStreamQuery(n.s); })); });
        question(at + "synchronize", [&] { return kept(cudaStreamSynchronize(n.s)); });
        question(at + "flags", [&] {
            unsigned f = 77;
            const string a = kept(cudaStreamGetFlags(n.s, &f));
            return a + " " + number(f);
        });
        question(at + "priority", [&] {
            int f = 77;
            const string a = kept(cudaStreamGetPriority(n.s, &f));
            return a + " " + number(f);
        });
        question(at + "id", [&] {
            unsigned long long f = 0;
            const string a = kept(cudaStreamGetId(n.s, &f));
            return a + (f ? " some" : " 0");
        });
        question(at + "device", [&] {
            int f = 77;
            const string a = kept(cudaStreamGetDevice(n.s, &f));
            return a + " " + number(f);
        });
        question(at + "capturing", [&] {
            cudaStreamCaptureStatus c;
            const string a = kept(cudaStreamIsCapturing(n.s, &c));
            return a;
        });
        question(at + "wait_null", [&] { return kept(cudaStreamWaitEvent(n.s, nullptr, 0)); });
        question(at + "wait_fresh", [&] { return kept(cudaStreamWaitEvent(n.s, fresh, 0)); });
        question(at + "record_null", [&] { return kept(cudaEventRecord(nullptr, n.s)); });
        question(at + "attach_null", [&] {
            return kept(cudaStreamAttachMemAsync(n.s, static_cast<void*>(nullptr), 0, cudaMemAttachGlobal));
        });
        if (n.s != s) question(at + "destroy", [&] { return kept(cudaStreamDestroy(n.s)); });
        for (int id = 0; id <= 18; ++id) {
            question(at + "get_attribute_" + number(id), [&] {
                cudaStreamAttrValue v{};
                return kept(cudaStreamGetAttribute(n.s, static_cast<cudaStreamAttrID>(id), &v));
            });
            question(at + "set_attribute_" + number(id), [&] {
                cudaStreamAttrValue v{};
                return kept(cudaStreamSetAttribute(n.s, static_cast<cudaStreamAttrID>(id), &v));
            });
        }
        question(at + "copy_attributes", [&] { return kept(cudaStreamCopyAttributes(n.s, s)); });
    }
    question("stream_null", [&] { return kept(cudaStreamCreate(nullptr)); });
    question("event_null", [&] { return kept(cudaEventCreate(nullptr)); });
    question("event_destroy_null", [&] { return kept(cudaEventDestroy(nullptr)); });
    question("event_query_null", [&] { return kept(cudaEventQuery(nullptr)); });
    question("event_synchronize_null", [&] { return kept(cudaEventSynchronize(nullptr)); });
    question("event_query_fresh", [&] {
        cudaEvent_t f;
        cudaEventCreate(&f);
        return kept(cudaEventQuery(f));
    });
    question("event_synchronize_fresh", [&] {
        cudaEvent_t f;
        cudaEventCreate(&f);
        return kept(cudaEventSynchronize(f));
    });
    question("elapsed_fresh", [&] {
        cudaEvent_t f;
        cudaEventCreate(&f);
        float ms;
        return kept(cudaEventElapsedTime(&ms, e, f));
    });
    question("elapsed_untimed", [&] {
        float ms;
        return kept(cudaEventElapsedTime(&ms, e, untimed));
    });
    question("elapsed_null", [&] {
        float ms;
        return kept(cudaEventElapsedTime(&ms, e, nullptr));
    });
    question("elapsed_null_time", [&] { return kept(cudaEventElapsedTime(nullptr, e, second)); });
    question("elapsed_same", [&] {
        float ms = -1;
        const string a = kept(cudaEventElapsedTime(&ms, e, e));
        return a + (ms == 0 ? " 0" : " other");
    });
    question("elapsed", [&] {
        float ms = -1;
        const string a = kept(cudaEventElapsedTime(&ms, e, second));
        return a + (ms >= 0 ? " positive" : " negative");
    });
    question("driver_destroy_null", [&] { return number(cuStreamDestroy(nullptr)); });
    question("driver_event_null", [&] { return number(cuEventDestroy(nullptr)); });
    question("driver_query_null", [&] { return number(cuEventQuery(nullptr)); });
    question("driver_flags", [&] {
        CUstream t;
        return number(cuStreamCreate(&t, 2));
    });
    question("driver_event_flags", [&] {
        CUevent t;
        return number(cuEventCreate(&t, 0x10));
    });
    question("driver_event_interprocess", [&] {
        CUevent t;
        return number(cuEventCreate(&t, CU_EVENT_INTERPROCESS));
    });
    question("ipc_event", [&] {
        CUipcEventHandle h;
        return number(cuIpcGetEventHandle(&h, e));
    });
    question("ipc_event_good", [&] {
        CUevent t;
        cuEventCreate(&t, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING);
        CUipcEventHandle h;
        return number(cuIpcGetEventHandle(&h, t));
    });
    question("ipc_event_garbage", [&] {
        CUipcEventHandle h{};
        CUevent t;
        return number(cuIpcOpenEventHandle(&t, h));
    });
    question("ipc_memory_garbage", [&] {
        CUipcMemHandle h{};
        CUdeviceptr p;
        return number(cuIpcOpenMemHandle(&p, h, 1));
    });
    question("ipc_memory_flags", [&] {
        CUipcMemHandle h{};
        CUdeviceptr p;
        return number(cuIpcOpenMemHandle(&p, h, 0));
    });
    question("reset_device_last", [&] { return kept(cudaDeviceReset()); });
}

}  // namespace
