#include "device/kernels/common/operands.h"
#include "device/kernels/convert.h"
#include "device/kernels/factories.h"
#include "device/kernels/reduce.h"
#include "device/kernels/row_sums.h"

namespace l2l::device::kernels {
namespace {

// With n = x / rms and g = dy * gain: dx = (g - n mean(g n)) / rms, dgain += sum of dy n.
template <typename T>
class RmsNormBackward final : public Kernel {
 public:
  RmsNormBackward(const compiler::Graph& graph, const compiler::Op& op)
      : hidden_(input(graph, op, 1).shape[1]), blocks_(sum_blocks(input(graph, op, 1).shape[0])) {
    require_dtype(graph, op, input(graph, op, 1).dtype, {0, 2, 4});
    require_dtype(graph, op, DType::f32, {3, 5});
  }

  Bytes workspace(int) const override {
    WorkspaceCutter cutter;
    take_partials(cutter);
    return cutter.used();
  }

  void run(std::span<std::byte* const> operands, std::byte* workspace, const LaunchParameters&,
           Workers& workers) const override {
    WorkspaceCutter cutter(workspace);
    float* const partials = take_partials(cutter);
    workers.parallel_for(blocks_.count(), [&](std::int64_t block, int) {
      float* dgain = partials + block * hidden_;
      std::fill(dgain, dgain + hidden_, 0.0f);
      for (std::int64_t row = blocks_.begin(block); row < blocks_.end(block); ++row)
        differentiate(operands, row, dgain);
    });
    add_partial_sums(partials, blocks_.count(), hidden_, hidden_, as<float>(operands[5]), workers);
  }

 private:
  float* take_partials(WorkspaceCutter& cutter) const { return cutter.take<float>(blocks_.count() * hidden_); }

  void differentiate(std::span<std::byte* const> operands, std::int64_t row, float* dgain) const {
    const T* dy = as<T>(operands[0]) + row * hidden_;
    const T* x = as<T>(operands[1]) + row * hidden_;
    const T* gain = as<T>(operands[2]);
    T* dx = as<T>(operands[4]) + row * hidden_;
    const float inverse_rms = as<float>(operands[3])[row];
    const auto g = [=](std::int64_t i) { return widen(dy[i]) * widen(gain[i]); };
    const auto normalized = [=](std::int64_t i) { return widen(x[i]) * inverse_rms; };
    const float sum = sum_of(hidden_, [=](std::int64_t i) { return g(i) * normalized(i); });
    const float projection = sum / static_cast<float>(hidden_);
#pragma omp simd
    for (std::int64_t i = 0; i < hidden_; ++i) {
      dgain[i] += widen(dy[i]) * normalized(i);
      dx[i] = narrow<T>((g(i) - normalized(i) * projection) * inverse_rms);
    }
  }

  std::int64_t hidden_;
  Partition blocks_;
};

}  // namespace

std::unique_ptr<Kernel> make_rms_norm_backward(const compiler::Graph& graph, const compiler::Op& op) {
  return make_for_dtype<RmsNormBackward>(graph, op, input(graph, op, 1).dtype);
}

}  // namespace l2l::device::kernels
