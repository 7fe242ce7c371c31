// SPDX-License-Identifier: Apache-2.0
// random_kernels.cc: writes many small, well-defined, random CUDA kernels: what a GPU computes from them, the software
// GPU must compute bit for bit (tests/soft/compare).
//
//   random_kernels SEED COUNT > r.cu && nvcc -ptx -fmad=false -arch=compute_80 -o r.ptx r.cu
//
// The module says itself how its kernels are run. Kernels k0, k1, ... take three pointers: to what the module's `input`
// holds, to `output` (zeros), and to `counters` (as the module initializes it); all three are variables of the module.
// Each has a grid of 2 blocks of `threads[k]` threads. Everything computed goes into `output` and `counters`.
//
// Well-defined: shifts are masked, divisors are not 0 or -1, loops end, signed arithmetic does not overflow, lanes meet
// before they exchange and read only from lanes that are there, a counter knows one operation, sums of floats are of
// whole numbers, results of atomics are used only where no other thread writes; and what the hardware may round as it
// likes (approximations, payloads of NaN) stays out. So does the low byte of what cvt made a half: ptxas 13.0 makes of
// a st.u8 of that register a conversion to an integer, where the PTX ISA lets it store the low bits.
// And after an exchange within a part of a warp, __syncwarp() joins the parts: where the result of a redux.sync is not
// used, ptxas 13.0 removes the instruction, but not the one before it that runs the parts one after the other, and a
// bar.sync that follows does not join them.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "tests/soft/random_forms.h"

namespace {

class Generator {
  public:
    explicit Generator(std::uint64_t seed) : random_(seed) {}

    std::string kernel(unsigned number) {
        text_.clear();
        depth_ = 0;
        loops_ = 0;
        threads_ = 32u * (1 + pick(4));
        text_ += "extern \"C\" __global__ void k" + std::to_string(number) + first;
        const unsigned statements = 6 + pick(16);
        for (unsigned k = 0; k < statements; ++k) together();
        return text_ + last;
    }
    unsigned threads() const { return threads_; }

  private:
    unsigned pick(std::uint64_t n) { return static_cast<unsigned>(random_() % n); }
    void line(std::string_view form) {
        text_ += std::string(4 + 4 * depth_, ' ') + filled(form, 2 + static_cast<int>(pick(2))) + "\n";
    }
    std::string_view one(const Forms& of) { return of[pick(of.size())]; }

    // A form with its places filled: see random_forms.h.
    std::string filled(std::string_view form, int depth) {
        std::string text;
        while (!form.empty()) {
            if (form.starts_with("[[")) {
                form.remove_prefix(2);
                const auto end = of_this_level(form, "]]");
                text += chosen(form.substr(0, end), depth);
                form.remove_prefix(end + 2);
            } else if (form[0] == '$') {
                text += place(form[1], depth);
                form.remove_prefix(2);
            } else {
                text += form[0];
                form.remove_prefix(1);
            }
        }
        return text;
    }
    static std::size_t of_this_level(std::string_view text, std::string_view what) {
        for (std::size_t i = 0, level = 0; i < text.size(); ++i) {
            if (level == 0 && text.substr(i).starts_with(what)) return i;
            if (text.substr(i).starts_with("[[")) {
                ++level;
                ++i;
            } else if (text.substr(i).starts_with("]]")) {
                --level;
                ++i;
            }
        }
        return text.npos;
    }
    std::string chosen(std::string_view from, int depth) {
        if (const auto dots = of_this_level(from, ".."); dots != from.npos) {
            const auto low = std::atoi(from.data()), high = std::atoi(from.data() + dots + 2);
            return std::to_string(low + static_cast<int>(pick(static_cast<unsigned>(high - low + 1))));
        }
        std::vector<std::string_view> options;
        for (;;) {
            const auto bar = of_this_level(from, "|");
            options.push_back(from.substr(0, bar));
            if (bar == from.npos) return filled(options[pick(options.size())], depth);
            from.remove_prefix(bar + 1);
        }
    }
    std::string place(char what, int depth) {
        if (what == 'n') return std::to_string(random_() % (std::uint64_t{1} << (1 + pick(31)))) + "u";
        if (what == '?') return filled(one(conditions), depth);
        if (what == 'U') {
            if (depth == 0) return filled(pick(4) == 0 ? "$n" : "$u", 0);
            for (const auto& type : types)
                if (type.letter == 'u') return "u32(" + filled(one(type.forms), depth - 1) + ")";
        }
        for (const auto& type : types)
            if (type.letter == what) return what + std::to_string(pick(type.variables));
        std::fprintf(stderr, "a form with an unknown place '$%c'\n", what);
        std::exit(2);
    }

    void assign() {
        const auto& type = types[pick(types.size())];
        line(std::string("$") + type.letter + " = " + std::string(one(type.forms)) + ";");
    }
    // May stand where lanes have parted.
    void apart() {
        const unsigned kind = depth_ >= 3 ? 0 : pick(12);
        if (kind < 6) return assign();
        if (kind < 8) return line(one(alone_forms));
        if (kind < 10) {
            line("if ($?) {");
            inside(1 + pick(3), &Generator::apart);
            if (pick(2) == 0) {
                line("} else {");
                inside(1 + pick(3), &Generator::apart);
            }
            line("}");
        } else if (kind == 10) {
            const auto k = "k" + std::to_string(loops_++);
            line("for (u32 " + k + " = 0; " + k + " < ($u & [[1|3|7]]); ++" + k + ") {");
            inside(1 + pick(2), &Generator::apart);
            if (pick(3) == 0) line("    if ($?) [[break|continue]];");
            line("}");
        } else {
            line("switch ($u & 7) {");
            for (unsigned k = 0; k < 6; ++k) {
                line("case " + std::to_string(k) + ":");
                inside(1, &Generator::apart);
                line("    [[break;|break;|/* on */]]");
            }
            line("default:");
            inside(1, &Generator::apart);
            line("}");
        }
    }
    // Where the lanes of a warp are together, but its block may not be.
    void warp() { pick(3) == 0 ? apart() : line(one(warp_forms)); }
    // Where all threads of the block are.
    void together() {
        switch (depth_ >= 2 ? 1 + pick(9) : pick(10)) {
            case 0: {
                const auto k = "k" + std::to_string(loops_++);
                line("for (u32 " + k + " = 0; " + k + " < [[1..3]]; ++" + k + ") {");
                inside(1 + pick(3), &Generator::together);
                return line("}");
            }
            case 1:
                line("if ([[__any_sync(~0u, $?)|blockIdx.x == 1|t / 32 != [[0..3]]]]) {");
                inside(1 + pick(3), &Generator::warp);
                return line("}");
            case 2:
            case 3: return line(one(block_forms));
            case 4:
            case 5:
            case 6: return line(one(warp_forms));
            default: return apart();
        }
    }
    void inside(unsigned n, void (Generator::*write)()) {
        ++depth_;
        for (unsigned k = 0; k < n; ++k) (this->*write)();
        --depth_;
    }

    std::mt19937_64 random_;
    std::string text_;
    unsigned depth_ = 0, loops_ = 0, threads_ = 32;
};

}  // namespace

int main(int argc, char** argv) {
    if (argc != 3) {
        std::fprintf(stderr, "random_kernels SEED COUNT: writes a CUDA program of COUNT kernels\n");
        return 2;
    }
    const std::uint64_t seed = std::strtoull(argv[1], nullptr, 0);
    const unsigned count = static_cast<unsigned>(std::atoi(argv[2]));
    std::printf("%s", prelude);
    std::string threads, input;
    std::uint32_t x = 12345;
    for (unsigned k = 0; k < 384; ++k) input += std::to_string(x = x * 1664525u + 1013904223u) + "u, ";
    for (unsigned k = 0; k < count; ++k) {
        Generator generator(seed * 1000003 + k);
        std::printf("%s", generator.kernel(k).c_str());
        threads += std::to_string(generator.threads()) + ", ";
    }
    std::printf("extern \"C\" {\n__device__ u32 threads[] = {%s};\n__device__ u32 input[] = {%s};\n%s}\n",
                threads.c_str(), input.c_str(), variables);
}
