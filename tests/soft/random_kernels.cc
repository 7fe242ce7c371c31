// random_kernels.cc: writes a CUDA program of many small, well-defined, random kernels. The program prints one line for
// each: its number and a hash of everything it computed. A GPU and the software GPU must print the same.
//
//   random_kernels SEED COUNT > r.cu && nvcc -cudart=shared -arch=compute_80 -code=compute_80 -o r r.cu && ./r >
//   gpu.txt
//
// Well-defined: shifts are masked, divisors are odd, loops end, lanes meet before they exchange, atomics commute, and
// what the hardware may round as it likes (approximations, NaN payloads of doubles) does not enter the hash.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

namespace {

class Generator {
  public:
    explicit Generator(std::uint64_t seed) : random_(seed) {}

    std::string kernel(unsigned number) {
        text_.clear();
        depth_ = 0, loops_ = 0;
        threads_ = 32u * (1 + pick(4));
        line("extern \"C\" __global__ void k" + std::to_string(number) + "(const u32* in, u32* out, u32* counters) {");
        line("    __shared__ u32 s[128]; __shared__ int cell[4];");
        line("    const u32 t = threadIdx.x, lane = t & 31, n = blockDim.x; u32 local[8];");
        line(
            "    u32 u0 = in[t], u1 = in[t + 128], u2 = t * 2654435761u, u3 = blockIdx.x; int i0 = (int)in[t + 256], "
            "i1 = (int)t - 40;");
        line(
            "    u64 w0 = (u64)u0 << 32 | u1, w1 = u2; float f0 = (int)(u0 >> 8) * 0.001f, f1 = (float)i1, f2 = 1.5f; "
            "double d0 = i0 * 0.125, d1 = t + 0.5; __half h0 = __int2half_rn((int)(u1 & 255)), h1 = "
            "__float2half(0.75f);");
        line(
            "    for (int k = 0; k < 8; ++k) local[k] = u0 + k * u1; if (t < 4) cell[t] = 0; s[t] = u0; "
            "__syncthreads();");
        const unsigned statements = 6 + pick(14);
        for (unsigned k = 0; k < statements; ++k) top();
        line(
            "    __syncthreads(); u64 r = 0; r = mix(r, u0); r = mix(r, u1); r = mix(r, u2); r = mix(r, u3); r = "
            "mix(r, i0); r = mix(r, i1); r = mix(r, w0); r = mix(r, w1);");
        line(
            "    r = mix(r, bits(f0)); r = mix(r, bits(f1)); r = mix(r, bits(f2)); r = mix(r, bits(d0)); r = mix(r, "
            "bits(d1)); r = mix(r, bits(h0)); r = mix(r, bits(h1)); r = mix(r, local[u0 & 7]); r = mix(r, s[t]); r = "
            "mix(r, (u32)cell[t & 3]);");
        line("    out[(blockIdx.x * 128 + t) * 2] = (u32)r; out[(blockIdx.x * 128 + t) * 2 + 1] = (u32)(r >> 32);\n}");
        return text_;
    }
    unsigned threads() const { return threads_; }

  private:
    unsigned pick(unsigned n) { return static_cast<unsigned>(random_() % n); }
    template <class... T> std::string one(T... options) {
        const std::vector<std::string> all{options...};
        return all[pick(static_cast<unsigned>(all.size()))];
    }
    void line(const std::string& s) { text_ += s + "\n"; }
    std::string indent() const { return std::string(4 + 4 * depth_, ' '); }

    std::string u() { return one("u0", "u1", "u2", "u3"); }
    std::string i() { return one("i0", "i1"); }
    std::string w() { return one("w0", "w1"); }
    std::string f() { return one("f0", "f1", "f2"); }
    std::string d() { return one("d0", "d1"); }
    std::string h() { return one("h0", "h1"); }
    std::string number() { return std::to_string(random_() % (std::uint64_t{1} << (1 + pick(31)))) + "u"; }

    std::string u_expression(int depth) {
        if (depth == 0) return pick(4) == 0 ? number() : u();
        const auto a = u_expression(depth - 1), b = u_expression(depth - 1);
        switch (pick(26)) {
            case 0: return "(" + a + " + " + b + ")";
            case 1: return "(" + a + " - " + b + ")";
            case 2: return "(" + a + " * " + b + ")";
            case 3: return "(" + a + " ^ " + b + ")";
            case 4: return "(" + a + " & " + b + ")";
            case 5: return "(" + a + " | ~" + b + ")";
            case 6: return "(" + a + " << (" + b + " & 31))";
            case 7: return "(" + a + " >> (" + b + " & 31))";
            case 8: return "(" + a + " / (" + b + " | 1))";
            case 9: return "(" + a + " % (" + b + " | 1))";
            case 10: return "__umulhi(" + a + ", " + b + ")";
            case 11: return "(u32)__popc(" + a + ")";
            case 12: return "(u32)__clz(" + a + ")";
            case 13: return "__brev(" + a + ")";
            case 14: return "__byte_perm(" + a + ", " + b + ", " + u() + ")";
            case 15: return "__funnelshift_l(" + a + ", " + b + ", " + u() + ")";
            case 16: return "(u32)__dp4a((int)" + a + ", (int)" + b + ", " + i() + ")";
            case 17: return "max(" + a + ", " + b + ")";
            case 18: return "(u32)min((int)" + a + ", (int)" + b + ")";
            case 19: return "(u32)(" + w() + " >> " + std::to_string(pick(33)) + ")";
            case 20: return "(" + a + " < " + b + " ? " + u() + " : " + u() + ")";
            case 21: return "local[" + a + " & 7]";
            case 22: return "__usad(" + a + ", " + b + ", " + u() + ")";
            case 23: return "(u32)(unsigned char)" + a;
            case 24: return "(u32)(short)" + a;
            default: return "__vadd2(" + a + ", " + b + ")";
        }
    }
    std::string i_expression() {
        switch (pick(8)) {
            case 0: return "(int)" + u_expression(2);
            case 1: return i() + " / ((int)(" + u() + " & 0xFFFF) | 1)";
            case 2: return i() + " >> (" + u() + " & 31)";
            case 3: return "__mulhi(" + i() + ", " + i() + ")";
            case 4: return "__float2int_" + one("rz", "rn", "rd", "ru") + "(" + f() + ")";
            case 5: return "__double2int_" + one("rz", "rn", "rd", "ru") + "(" + d() + ")";
            case 6: return "(int)((u32)" + i() + " * 7u) % 1000";
            default: return "__ffs(" + i() + ")";
        }
    }
    std::string w_expression() {
        switch (pick(8)) {
            case 0: return w() + " + ((u64)" + u() + " << 17)";
            case 1: return w() + " * " + w();
            case 2: return w() + " >> (" + u() + " & 63)";
            case 3: return w() + " / ((u64)" + u() + " | 1)";
            case 4: return "(u64)" + u() + " * " + u();
            case 5: return "__umul64hi(" + w() + ", " + w() + ")";
            case 6: return "(u64)((long long)" + w() + " >> (" + u() + " & 63))";
            default: return w() + " ^ (u64)__double2ll_rz(" + d() + ")";
        }
    }
    std::string f_expression() {
        const auto direction = one("rn", "rz", "ru", "rd");
        switch (pick(11)) {
            case 0: return f() + " + " + f();
            case 1: return f() + " * " + f();
            case 2: return f() + " - " + f() + " * 0.5f";
            case 3: return "fmaf(" + f() + ", " + f() + ", " + f() + ")";
            case 4: return f() + " / (fabsf(" + f() + ") + 1.0f)";
            case 5: return "sqrtf(fabsf(" + f() + "))";
            case 6: return one("fminf", "fmaxf") + "(" + f() + ", " + f() + ")";
            case 7: return "(float)" + one(i(), u(), "(float)" + d(), w());
            case 8: return one("floorf", "ceilf", "truncf", "rintf") + "(" + f() + ")";
            case 9: return "__f" + one("add", "mul", "sub") + "_" + direction + "(" + f() + ", " + f() + ")";
            default: return "__half2float(" + h() + ")";
        }
    }
    std::string d_expression() {
        switch (pick(8)) {
            case 0: return d() + " + " + d();
            case 1: return d() + " * 0.5 - " + d();
            case 2: return "fma(" + d() + ", " + d() + ", 1.0)";
            case 3: return d() + " / (fabs(" + d() + ") + 1.0)";
            case 4: return "sqrt(fabs(" + d() + "))";
            case 5: return "(double)" + one(f(), i(), u(), w());
            case 6: return "__d" + one("add", "mul") + "_" + one("rn", "rz", "ru", "rd") + "(" + d() + ", " + d() + ")";
            default: return one("fmin", "fmax") + "(" + d() + ", " + d() + ")";
        }
    }
    std::string h_expression() {
        switch (pick(5)) {
            case 0: return "__hadd(" + h() + ", " + h() + ")";
            case 1: return "__hmul(" + h() + ", " + h() + ")";
            case 2: return "__hfma(" + h() + ", " + h() + ", " + h() + ")";
            case 3: return "__float2half(" + f() + ")";
            default: return "__int2half_rn(" + i() + " & 1023)";
        }
    }
    std::string condition() {
        switch (pick(6)) {
            case 0: return u() + " " + one("<", ">", "==", "!=") + " " + u();
            case 1: return "(" + u() + " & " + std::to_string(1 + pick(15)) + ") " + one("==", "!=") + " 0";
            case 2: return i() + " " + one("<", ">=") + " " + std::to_string(static_cast<int>(pick(200)) - 100);
            case 3: return f() + " " + one("<", ">=", "!=") + " " + f();
            case 4: return "lane " + one("<", ">") + " " + std::to_string(pick(32));
            default: return d() + " " + one("<", "<=") + " " + d();
        }
    }
    void assign() {
        switch (pick(10)) {
            case 0:
            case 1:
            case 2: line(indent() + u() + " = " + u_expression(1 + static_cast<int>(pick(3))) + ";"); break;
            case 3: line(indent() + i() + " = " + i_expression() + ";"); break;
            case 4: line(indent() + w() + " = " + w_expression() + ";"); break;
            case 5:
            case 6: line(indent() + f() + " = " + f_expression() + ";"); break;
            case 7: line(indent() + d() + " = " + d_expression() + ";"); break;
            case 8: line(indent() + h() + " = " + h_expression() + ";"); break;
            default:
                line(indent() + "local[" + u() + " & 7] " + one("=", "+=", "^=") + " " + u_expression(1) + ";");
                break;
        }
    }
    // May stand in divergent code.
    void statement() {
        const unsigned kind = depth_ >= 3 ? 0 : pick(10);
        if (kind < 6) return assign();
        if (kind == 6 || kind == 7) {
            line(indent() + "if (" + condition() + ") {");
            block(1 + pick(3));
            if (pick(2) == 0) line(indent() + "} else {"), block(1 + pick(3));
            line(indent() + "}");
        } else if (kind == 8) {
            const auto k = "k" + std::to_string(loops_++);
            line(indent() + "for (u32 " + k + " = 0; " + k + " < (" + u() + " & " +
                 std::to_string((1u << (1 + pick(3))) - 1) + "); ++" + k + ") {");
            block(1 + pick(2));
            if (pick(3) == 0) line(indent() + "    if (" + condition() + ") " + one("break", "continue") + ";");
            line(indent() + "    if (" + k + " > 9) break;");
            line(indent() + "}");
        } else {
            line(indent() + "switch (" + u() + " & 7) {");
            for (unsigned k = 0; k < 6; ++k)
                line(indent() + "case " + std::to_string(k) + ":"), block(1), line(indent() + "    break;");
            line(indent() + "default:");
            block(1);
            line(indent() + "}");
        }
    }
    void block(unsigned n) {
        ++depth_;
        for (unsigned k = 0; k < n; ++k) statement();
        --depth_;
    }
    // All threads of the block stand here: they may exchange.
    void top() {
        switch (pick(14)) {
            case 0:
                line("    " + u() + " ^= __shfl_xor_sync(~0u, " + u() + ", " + std::to_string(1 + pick(31)) + ");");
                break;
            case 1: line("    " + u() + " += __shfl_sync(~0u, " + u() + ", (int)(" + u() + " & 31));"); break;
            case 2:
                line("    " + f() + " = __shfl_" + one("up", "down") + "_sync(~0u, " + f() + ", " +
                     std::to_string(pick(17)) + ", " + one("8", "16", "32") + ");");
                break;
            case 3: line("    " + u() + " ^= __ballot_sync(~0u, " + condition() + ");"); break;
            case 4:
                line("    if (__any_sync(~0u, " + condition() + ")) " + u() + " += __popc(__match_any_sync(~0u, " +
                     u() + " & 7));");
                break;
            case 5:
                line("    " + u() + " += __reduce_" + one("add", "min", "max", "xor", "or") + "_sync(~0u, " + u() +
                     ");");
                break;
            case 6:
                line("    __syncthreads(); s[t] = " + u() + "; __syncthreads(); " + u() + " += s[(t * " +
                     std::to_string(1 + 2 * pick(8)) + " + " + std::to_string(pick(64)) + ") % n]; __syncthreads();");
                break;
            case 7:
                line("    atomic" + one("Add", "Max", "Min", "Xor", "Or") + "(&cell[" + u() + " & 3], " + i() +
                     " & 0xFFFF); __syncthreads(); " + u() +
                     " += (u32)cell[t & 3]; __syncthreads(); if (t < 4) cell[t] = 0; __syncthreads();");
                break;
            case 8:
                line("    if (" + condition() + ") atomic" + one("Add", "Max", "Xor") + "(&counters[" +
                     std::to_string(pick(8)) + "], " + u() + ");");
                break;
            case 9: line("    " + u() + " += (u32)__syncthreads_count(" + condition() + ");"); break;
            case 10: line("    " + u() + " = call" + std::to_string(pick(3)) + "(" + u() + ", " + i() + ");"); break;
            default: statement();
        }
    }

    std::mt19937_64 random_;
    std::string text_;
    unsigned depth_ = 0, loops_ = 0, threads_ = 32;
};

constexpr const char* prelude = R"(// Generated by tests/soft/random_kernels.cc.
#include <cuda_fp16.h>
#include <cstdio>
#include <cstring>
#include <vector>
typedef unsigned u32;
typedef unsigned long long u64;
__device__ u64 mix(u64 r, u64 x) { r ^= x + 0x9E3779B97F4A7C15ull + (r << 6) + (r >> 2); return r * 0xBF58476D1CE4E5B9ull; }
__device__ u64 bits(float x) { return x != x ? 1 : __float_as_uint(x); }
__device__ u64 bits(double x) { return x != x ? 1 : (u64)__double_as_longlong(x); }
__device__ u64 bits(__half x) { return __hisnan(x) ? 1 : __half_as_ushort(x); }
__noinline__ __device__ u32 call0(u32 a, int b) { return a < 2 ? a + b : call0(a >> 3, b * 3) ^ a; }
__noinline__ __device__ u32 call1(u32 a, int b) { u32 x[6]; for (int k = 0; k < 6; ++k) x[k] = a * k + b; return x[a % 6] + x[(u32)b % 6]; }
__noinline__ __device__ u32 call2(u32 a, int b) { return __popc(a) * 1000u + (b > 0 ? call1(a, b) : call0(a, b)); }
)";

}  // namespace

int main(int argc, char** argv) {
    const std::uint64_t seed = argc > 1 ? std::strtoull(argv[1], nullptr, 0) : 1;
    const unsigned count = argc > 2 ? static_cast<unsigned>(std::atoi(argv[2])) : 100;
    std::printf("%s", prelude);
    std::string table;
    for (unsigned k = 0; k < count; ++k) {
        Generator generator(seed * 1000003 + k);
        std::printf("%s", generator.kernel(k).c_str());
        table += "    {(const void*)k" + std::to_string(k) + ", " + std::to_string(generator.threads()) + "},\n";
    }
    std::printf("struct Kernel { const void* run; unsigned threads; };\nstatic const Kernel kernels[] = {\n%s};\n",
                table.c_str());
    std::printf("%s", R"(
int main() {
    u32 *in, *out, *counters;
    std::vector<u32> start(384), result(512), zero(8);
    u32 x = 12345;
    for (u32& v : start) x = x * 1664525u + 1013904223u, v = x;
    cudaMalloc(&in, 384 * 4), cudaMalloc(&out, 512 * 4), cudaMalloc(&counters, 8 * 4);
    cudaMemcpy(in, start.data(), 384 * 4, cudaMemcpyHostToDevice);
    unsigned number = 0;
    for (const Kernel& k : kernels) {
        cudaMemset(out, 0, 512 * 4), cudaMemset(counters, 0, 8 * 4);
        void* arguments[] = {&in, &out, &counters};
        cudaLaunchKernel(k.run, dim3(2), dim3(k.threads), arguments, 0, 0);
        cudaMemcpy(result.data(), out, 512 * 4, cudaMemcpyDeviceToHost), cudaMemcpy(zero.data(), counters, 8 * 4, cudaMemcpyDeviceToHost);
        if (const cudaError_t error = cudaGetLastError(); error != cudaSuccess) return std::printf("k%u: %s\n", number, cudaGetErrorString(error)), 1;
        u64 hash = 14695981039346656037ull;
        for (const auto* v : {&result, &zero})
            for (u32 word : *v) hash = (hash ^ word) * 1099511628211ull;
        std::printf("k%u %016llx\n", number++, hash);
    }
    std::printf("%u kernels\n", number);
}
)");
}
