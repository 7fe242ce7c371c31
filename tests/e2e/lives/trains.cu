// SPDX-License-Identifier: Apache-2.0
// trains: trains a network of two layers on numbers that it makes up, as a framework does: a batch goes to the GPU,
// matrices are multiplied, weights change, and the host reads each step's loss and a sum over the bits of all weights.
// Every second step is a captured graph.
//   trains [steps=N] [seed=N]      prints a line for each step, the same ones in each run with that seed
//   trains until=line              until a line comes on standard input: at least one step after it
#include <poll.h>

#include <cstring>
#include <vector>

#include "../../programs/check.h"

constexpr int batch = 32, inputs = 48, hidden = 64, outputs = 16;
constexpr float rate = 0.002f, momentum = 0.9f;

// C = op(A) op(B), row by row; each element is the sum of one thread, in one order.
__global__ void multiply(const float* a, bool turned_a, const float* b, bool turned_b, float* c, int rows, int columns,
                         int depth, bool relu) {
    const int row = blockIdx.y * blockDim.y + threadIdx.y, column = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows || column >= columns) return;
    float sum = 0;
    for (int i = 0; i < depth; ++i)
        sum += (turned_a ? a[i * rows + row] : a[row * depth + i]) *
               (turned_b ? b[column * depth + i] : b[i * columns + column]);
    c[row * columns + column] = relu && sum < 0 ? 0 : sum;
}
// What the outputs lack, and in `loss` the sum of its squares.
__global__ void miss(float* out, const float* wanted, float* loss) {
    float sum = 0;
    for (int i = 0; i < batch * outputs; ++i) {
        out[i] -= wanted[i];
        sum += out[i] * out[i];
    }
    *loss = sum / batch;
}
__global__ void mask(float* gradient, const float* activations, int count) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count && activations[i] <= 0) gradient[i] = 0;
}
__global__ void update(float* weights, float* speed, const float* gradient, unsigned* sum, int count) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    speed[i] = momentum * speed[i] - rate * gradient[i] / batch;
    weights[i] += speed[i];
    atomicAdd(sum, __float_as_uint(weights[i]) * (2u * i + 1));
}

static unsigned state = 1;
static float number() { return int((state = state * 1664525u + 1013904223u) >> 16) % 2001 / 1000.0f - 1; }

struct Layer {
    float *weights, *speed, *gradient;
    int count;
    explicit Layer(int count) : count(count) {
        std::vector<float> first(count);
        for (float& w : first) w = number() / 4;
        for (float** at : {&weights, &speed, &gradient}) CHECK(cudaMalloc(at, count * sizeof(float)));
        CHECK(cudaMemcpy(weights, first.data(), count * sizeof(float), cudaMemcpyHostToDevice));
        CHECK(cudaMemset(speed, 0, count * sizeof(float)));
    }
};

struct Told {
    float loss;
    unsigned sum;
};

class Training {
  public:
    Training() : first_(inputs * hidden), second_(hidden * outputs) {
        CHECK(cudaStreamCreate(&stream_));
        for (float** at : {&in_, &wanted_, &inside_, &inside_gradient_, &out_})
            CHECK(cudaMalloc(at, batch * hidden * sizeof(float)));
        CHECK(cudaMalloc(&told_, sizeof(Told)));
        CHECK(cudaMallocHost(&numbers_, batch * (inputs + outputs) * sizeof(float)));
        CHECK(cudaMallocHost(&seen_, sizeof(Told)));
        cudaGraph_t graph;
        CHECK(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal));
        enqueue();
        CHECK(cudaStreamEndCapture(stream_, &graph));
        CHECK(cudaGraphInstantiate(&graph_, graph, 0));
        CHECK(cudaGraphDestroy(graph));
    }
    Told step(int n) {
        float* const wanted = numbers_ + batch * inputs;
        for (int i = 0; i < batch * inputs; ++i) numbers_[i] = number();
        for (int i = 0; i < batch * outputs; ++i)
            wanted[i] = numbers_[i / outputs * inputs + i % outputs] * numbers_[i / outputs * inputs + 20];
        if (n % 2) CHECK(cudaGraphLaunch(graph_, stream_));
        else enqueue();
        CHECK(cudaStreamSynchronize(stream_));
        return *seen_;
    }

  private:
    void product(const float* a, bool turned_a, const float* b, bool turned_b, float* c, int rows, int columns,
                 int depth, bool relu = false) {
        const dim3 block(16, 4), grid((columns + 15) / 16, (rows + 3) / 4);
        multiply<<<grid, block, 0, stream_>>>(a, turned_a, b, turned_b, c, rows, columns, depth, relu);
    }
    void change(const Layer& layer) {
        update<<<(layer.count + 127) / 128, 128, 0, stream_>>>(layer.weights, layer.speed, layer.gradient, &told_->sum,
                                                               layer.count);
    }
    void enqueue() {
        CHECK(cudaMemcpyAsync(in_, numbers_, batch * inputs * sizeof(float), cudaMemcpyHostToDevice, stream_));
        CHECK(cudaMemcpyAsync(wanted_, numbers_ + batch * inputs, batch * outputs * sizeof(float),
                              cudaMemcpyHostToDevice, stream_));
        CHECK(cudaMemsetAsync(told_, 0, sizeof(Told), stream_));
        product(in_, false, first_.weights, false, inside_, batch, hidden, inputs, true);
        product(inside_, false, second_.weights, false, out_, batch, outputs, hidden);
        miss<<<1, 1, 0, stream_>>>(out_, wanted_, &told_->loss);
        product(inside_, true, out_, false, second_.gradient, hidden, outputs, batch);
        product(out_, false, second_.weights, true, inside_gradient_, batch, hidden, outputs);
        mask<<<batch, hidden, 0, stream_>>>(inside_gradient_, inside_, batch * hidden);
        product(in_, true, inside_gradient_, false, first_.gradient, inputs, hidden, batch);
        change(first_);
        change(second_);
        CHECK(cudaGetLastError());
        CHECK(cudaMemcpyAsync(seen_, told_, sizeof(Told), cudaMemcpyDeviceToHost, stream_));
    }

    Layer first_, second_;
    cudaStream_t stream_{};
    cudaGraphExec_t graph_{};
    float *in_{}, *wanted_{}, *inside_{}, *inside_gradient_{}, *out_{}, *numbers_{};
    Told *told_{}, *seen_{};
};

static bool a_line_came() {
    pollfd input{0, POLLIN, 0};
    return poll(&input, 1, 0) != 0;
}

int main(int argc, char** argv) {
    int steps = 100;
    bool until_line = false;
    for (int i = 1; i < argc; ++i) {
        if (!std::strncmp(argv[i], "steps=", 6)) steps = std::atoi(argv[i] + 6);
        else if (!std::strncmp(argv[i], "seed=", 5)) state = unsigned(std::atoi(argv[i] + 5)) * 2 + 1;
        else if (!std::strcmp(argv[i], "until=line")) until_line = true;
        else return 2;
    }
    Training training;
    float first = 0, last = 0;
    bool ends = false;
    for (int n = 0; until_line ? !ends : n < steps; ++n) {
        ends = until_line && a_line_came();
        const Told told = training.step(n);
        if (n == 0) first = told.loss;
        last = told.loss;
        unsigned bits;
        std::memcpy(&bits, &told.loss, sizeof bits);
        std::printf("step %d: loss %g (%08x), weights %08x\n", n, told.loss, bits, told.sum);
        std::fflush(stdout);
    }
    return verdict(!(last <= first));
}
