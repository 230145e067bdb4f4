#include "device/kernels/common/column_sums.cuh"
#include "device/kernels/cuda_factories.h"
#include "device/kernels/window.cuh"

namespace l2l::device::cuda {
namespace {

template <typename T>
struct DepthwiseBackwardBody : WindowBody<T> {
  const T *dy = nullptr, *x = nullptr;
  const T* weights = nullptr;  // [elements of the window, channels]
  T* dx = nullptr;

  DepthwiseBackwardBody(const OpView& op) : WindowBody<T>(op) {}

  template <int Count>
  __device__ void at(std::int64_t first) const {
    const Place cell = place_of<Count>(first, this->columns);
    Floats<Count> sum{};
    this->window.each_covering(
        this->window.pixel(cell.row), [&](const SlidingWindow::Point&, std::int64_t row, std::int32_t element) {
          const Floats<Count> values = load_floats<Count>(dy + row * this->columns + cell.column);
          const Floats<Count> factors = load_floats<Count>(weights + element * this->columns + cell.column);
#pragma unroll
          for (int i = 0; i < Count; ++i) sum[i] += values[i] * factors[i];
        });
    store_floats(dx + first, sum);
  }
};

// Of each place, what it adds to the gradients of the weights, by element of the window and channel.
template <typename T>
struct WeightGradients : Unprepared {
  SlidingWindow window;
  std::int64_t channels;
  const T *dy, *x;

  explicit WeightGradients(const DepthwiseBackwardBody<T>& body)
      : window(body.window), channels(body.columns), dy(body.dy), x(body.x) {}

  template <int Count>
  __device__ Floats<Count> at(std::int64_t row, std::int64_t column) const {
    const auto element = static_cast<std::int32_t>(column / channels);
    const std::int64_t channel = column - element * channels;
    const std::int64_t under = window.row_under(window.place(row), element / window.size[1], element % window.size[1]);
    Floats<Count> values{};
    if (under < 0) return values;
    values = load_floats<Count>(dy + row * channels + channel);
    const Floats<Count> others = load_floats<Count>(x + under * channels + channel);
#pragma unroll
    for (int i = 0; i < Count; ++i) values[i] *= others[i];
    return values;
  }
};

// dw[c * elements + e] += sums[e * channels + c].
__global__ void __launch_bounds__(kElementwiseThreads)
    add_transposed(std::int64_t channels, std::int64_t elements, const float* sums, float* dw) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kElementwiseThreads + threadIdx.x;
  if (i < channels * elements) dw[i] += sums[i % elements * channels + i / elements];
}

template <typename T>
class DepthwiseBackward final : public Kernel {
 public:
  DepthwiseBackward(const Context& context, const OpView& op)
      : context_(context),
        body_(op),
        trained_(op.outputs.size() > 1),
        sums_(op.input(0).shape[0], weights(), body_.columns) {
    require_groups<T>(body_.elements, body_.columns);
  }

  // The weights, transposed, and in their place, when they have been read, the sums.
  Bytes workspace() const override {
    const Bytes weights_bytes = static_cast<Bytes>(weights()) * sizeof(T);
    return trained_ ? std::max(weights_bytes, totals_bytes() + sums_.workspace()) : weights_bytes;
  }

  void enqueue(Operands operands, std::byte* workspace, const LaunchParameters*, cudaStream_t stream) const override {
    constexpr const char* kName = "depthwise_backward";
    DepthwiseBackwardBody<T> body = body_;
    const T* w = nullptr;
    point_to(operands, body.dy, body.x, w, body.dx);
    body.weights = reinterpret_cast<const T*>(workspace);
    launch_transpose_weights(body.columns, body.window.area(), w, reinterpret_cast<T*>(workspace), stream);
    launch_elementwise_rows<T>(kName, context_, body.elements, body.columns, body, stream);
    if (!trained_) return;
    auto* const totals = reinterpret_cast<float*>(workspace);
    check(cudaMemsetAsync(totals, 0, static_cast<std::size_t>(weights()) * sizeof(float), stream), "cudaMemsetAsync");
    sums_.enqueue(kName, WeightGradients<T>(body), workspace + totals_bytes(), totals, stream);
    launch(kName, add_transposed, {ceil_div(weights(), kElementwiseThreads), kElementwiseThreads}, stream, body.columns,
           std::int64_t{body.window.area()}, totals, as<float>(operands[4]));
  }

 private:
  std::int64_t weights() const { return body_.columns * body_.window.area(); }
  Bytes totals_bytes() const { return align_up(static_cast<Bytes>(weights()) * sizeof(float), 64); }

  Context context_;
  DepthwiseBackwardBody<T> body_;  // without addresses
  bool trained_;
  ColumnSums<T> sums_;
};

}  // namespace

const Factory make_depthwise_backward = make_for_input<DepthwiseBackward, 1>;

}  // namespace l2l::device::cuda
