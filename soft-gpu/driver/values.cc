// SPDX-License-Identifier: Apache-2.0
// values.cc: a stream writes a word into memory, or waits for one: so a host learns of the device's progress without a
// call, and a stream waits for the host. Host, kernels and streams see the same memory, so release and acquire on the
// word are sufficient.
#include <sched.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "soft-gpu/driver/driver.h"
#include "soft-gpu/driver/operations.h"

namespace barcuda::soft::driver {
namespace {

template <class Word> bool reached(Word now, Word wanted, unsigned flags) {
    switch (flags & 3u) {
        case CU_STREAM_WAIT_VALUE_GEQ: return static_cast<std::make_signed_t<Word>>(now - wanted) >= 0;  // cyclic
        case CU_STREAM_WAIT_VALUE_EQ: return now == wanted;
        case CU_STREAM_WAIT_VALUE_AND: return (now & wanted) != 0;
        default: return static_cast<Word>(~(now | wanted)) != 0;
    }
}

template <class Word> void wait(Context& context, CUdeviceptr address, Word wanted, unsigned flags) {
    auto* const word = reinterpret_cast<Word*>(address);
    for (unsigned tries = 0; !reached(__atomic_load_n(word, __ATOMIC_ACQUIRE), wanted, flags); ++tries) {
        if (!context.alive() || context.fault() != CUDA_SUCCESS) return;
        if (tries < 64) __builtin_ia32_pause();
        else if (tries < 1024) sched_yield();
        else  // after a millisecond latency matters less: leave the core to the thread that will write the word
            std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
}

template <class Word> void write(CUdeviceptr address, Word value) {
    __atomic_store_n(reinterpret_cast<Word*>(address), value, __ATOMIC_RELEASE);
}

// A full barrier, in a form that ThreadSanitizer knows.
void barrier() {
    static std::atomic<unsigned> any{0};
    any.fetch_add(1, std::memory_order_seq_cst);
}

// None of a pool's memory, and no flag of a write, as NVIDIA's driver has it (580).
void require_word(CUdeviceptr address, std::size_t size, bool for_writing, unsigned flags) {
    const Memory& memory = Driver::get().memory;
    constexpr unsigned of_a_wait = CU_STREAM_WAIT_VALUE_NOR | CU_STREAM_WAIT_VALUE_FLUSH;
    require(address % size == 0 && memory.covered(address, size, for_writing) &&
            !(flags & ~(for_writing ? 0 : of_a_wait)));
    const auto found = memory.find(address);
    require(!found || !found->pool);
}

}  // namespace

std::shared_ptr<Values> values(const CUstreamBatchMemOpParams* asked, unsigned count) {
    require(asked || count == 0);
    require(count <= 256);  // as the header says
    auto operation = std::make_shared<Values>();
    for (const CUstreamBatchMemOpParams* each = asked; each != asked + count; ++each) {
        switch (each->operation) {
            case CU_STREAM_MEM_OP_WAIT_VALUE_32:
                require_word(each->waitValue.address, 4, false, each->waitValue.flags);
                break;
            case CU_STREAM_MEM_OP_WAIT_VALUE_64:
                require_word(each->waitValue.address, 8, false, each->waitValue.flags);
                break;
            case CU_STREAM_MEM_OP_WRITE_VALUE_32:
                require_word(each->writeValue.address, 4, true, each->writeValue.flags);
                break;
            case CU_STREAM_MEM_OP_WRITE_VALUE_64:
                require_word(each->writeValue.address, 8, true, each->writeValue.flags);
                break;
            case CU_STREAM_MEM_OP_BARRIER: break;
            // CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES is 0: nothing remote writes into the device's memory.
            case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES: fail(CUDA_ERROR_NOT_SUPPORTED);
            default: fail(CUDA_ERROR_INVALID_VALUE);
        }
        operation->asked.push_back(*each);
    }
    return operation;
}

// A graph may run them after their memory has been freed.
void require_there(CUdeviceptr address, std::size_t size, bool for_writing) {
    if (!Driver::get().memory.covered(address, size, for_writing))
        fail(CUDA_ERROR_ILLEGAL_ADDRESS, "a stream waits for or writes a word that is not there any more");
}

void Values::run(Context& context) {
    for (const CUstreamBatchMemOpParams& each : asked) {
        switch (each.operation) {
            case CU_STREAM_MEM_OP_WAIT_VALUE_32:
                require_there(each.waitValue.address, 4, false);
                wait<std::uint32_t>(context, each.waitValue.address, each.waitValue.value, each.waitValue.flags);
                break;
            case CU_STREAM_MEM_OP_WAIT_VALUE_64:
                require_there(each.waitValue.address, 8, false);
                wait<std::uint64_t>(context, each.waitValue.address, each.waitValue.value64, each.waitValue.flags);
                break;
            case CU_STREAM_MEM_OP_WRITE_VALUE_32:
                require_there(each.writeValue.address, 4, true);
                write<std::uint32_t>(each.writeValue.address, each.writeValue.value);
                break;
            case CU_STREAM_MEM_OP_WRITE_VALUE_64:
                require_there(each.writeValue.address, 8, true);
                write<std::uint64_t>(each.writeValue.address, each.writeValue.value64);
                break;
            default: barrier(); break;
        }
    }
}

}  // namespace barcuda::soft::driver

using namespace barcuda::soft::driver;

namespace {

CUresult post_value(CUstream handle, CUstreamBatchMemOpType operation, CUdeviceptr address, std::uint64_t value,
                    unsigned flags, const char* name = __builtin_FUNCTION()) {
    return api(
        [&] {
            CUstreamBatchMemOpParams asked{};
            asked.writeValue.operation = operation;  // waitValue has the same layout
            asked.writeValue.address = address;
            asked.writeValue.value64 = value;
            asked.writeValue.flags = flags;
            const auto stream = stream_of(handle);
            stream->context().post(*stream, values(&asked, 1));
        },
        name);
}

}  // namespace

CUresult cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr addr, cuuint32_t value, unsigned int flags) {
    return post_value(stream, CU_STREAM_MEM_OP_WAIT_VALUE_32, addr, value, flags);
}
CUresult cuStreamWaitValue64_v2(CUstream stream, CUdeviceptr addr, cuuint64_t value, unsigned int flags) {
    return post_value(stream, CU_STREAM_MEM_OP_WAIT_VALUE_64, addr, value, flags);
}
CUresult cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr addr, cuuint32_t value, unsigned int flags) {
    return post_value(stream, CU_STREAM_MEM_OP_WRITE_VALUE_32, addr, value, flags);
}
CUresult cuStreamWriteValue64_v2(CUstream stream, CUdeviceptr addr, cuuint64_t value, unsigned int flags) {
    return post_value(stream, CU_STREAM_MEM_OP_WRITE_VALUE_64, addr, value, flags);
}
CUresult cuStreamBatchMemOp_v2(CUstream stream, unsigned int count, CUstreamBatchMemOpParams* paramArray,
                               unsigned int flags) {
    return api([&] {
        require(flags == 0);
        const auto where = stream_of(stream);
        where->context().post(*where, values(paramArray, count));
    });
}
// The first version had the same meaning, enabled by a module parameter of the kernel driver.
CUresult cuStreamWaitValue32(CUstream stream, CUdeviceptr addr, cuuint32_t value, unsigned int flags) {
    return cuStreamWaitValue32_v2(stream, addr, value, flags);
}
CUresult cuStreamWaitValue64(CUstream stream, CUdeviceptr addr, cuuint64_t value, unsigned int flags) {
    return cuStreamWaitValue64_v2(stream, addr, value, flags);
}
CUresult cuStreamWriteValue32(CUstream stream, CUdeviceptr addr, cuuint32_t value, unsigned int flags) {
    return cuStreamWriteValue32_v2(stream, addr, value, flags);
}
CUresult cuStreamWriteValue64(CUstream stream, CUdeviceptr addr, cuuint64_t value, unsigned int flags) {
    return cuStreamWriteValue64_v2(stream, addr, value, flags);
}
CUresult cuStreamBatchMemOp(CUstream stream, unsigned int count, CUstreamBatchMemOpParams* paramArray,
                            unsigned int flags) {
    return cuStreamBatchMemOp_v2(stream, count, paramArray, flags);
}
