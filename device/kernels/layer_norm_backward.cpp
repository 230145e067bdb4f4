#include "device/kernels/common/operands.h"
#include "device/kernels/convert.h"
#include "device/kernels/factories.h"
#include "device/kernels/reduce.h"
#include "device/kernels/row_sums.h"

namespace l2l::device::kernels {
namespace {

// With n = (x - mean) / deviation and g = dy * gain: dx = (g - mean(g) - n mean(g n)) / deviation.
template <typename T>
class LayerNormBackward final : public Kernel {
 public:
  LayerNormBackward(const compiler::Graph& graph, const compiler::Op& op)
      : hidden_(input(graph, op, 1).shape[1]), blocks_(sum_blocks(input(graph, op, 1).shape[0])) {
    require_dtype(graph, op, input(graph, op, 1).dtype, {0, 2, 5});
    require_dtype(graph, op, DType::f32, {3, 4, 6, 7});
  }

  Bytes workspace(int) const override { return Workspace(*this, nullptr).bytes; }

  void run(std::span<std::byte* const> operands, std::byte* workspace, const LaunchParameters&,
           Workers& workers) const override {
    const Workspace partials(*this, workspace);
    workers.parallel_for(blocks_.count(), [&](std::int64_t block, int) {
      float* dgain = partials.dgain + block * hidden_;
      float* dbias = partials.dbias + block * hidden_;
      std::fill(dgain, dgain + hidden_, 0.0f);
      std::fill(dbias, dbias + hidden_, 0.0f);
      for (std::int64_t row = blocks_.begin(block); row < blocks_.end(block); ++row) {
        add_parameter_gradients(operands, row, dgain, dbias);
        input_gradient(operands, row);
      }
    });
    add_partial_sums(partials.dgain, blocks_.count(), hidden_, hidden_, as<float>(operands[6]), workers);
    add_partial_sums(partials.dbias, blocks_.count(), hidden_, hidden_, as<float>(operands[7]), workers);
  }

 private:
  struct Workspace {
    float* dgain;
    float* dbias;
    Bytes bytes;
    Workspace(const LayerNormBackward& kernel, std::byte* base) {
      WorkspaceCutter cutter(base);
      dgain = cutter.take<float>(kernel.blocks_.count() * kernel.hidden_);
      dbias = cutter.take<float>(kernel.blocks_.count() * kernel.hidden_);
      bytes = cutter.used();
    }
  };

  void add_parameter_gradients(std::span<std::byte* const> operands, std::int64_t row, float* dgain,
                               float* dbias) const {
    const T* dy = as<T>(operands[0]) + row * hidden_;
    const T* x = as<T>(operands[1]) + row * hidden_;
    const float mean = as<float>(operands[3])[row], inverse_deviation = as<float>(operands[4])[row];
#pragma omp simd
    for (std::int64_t i = 0; i < hidden_; ++i) {
      const float gradient = widen(dy[i]);
      dgain[i] += gradient * ((widen(x[i]) - mean) * inverse_deviation);
      dbias[i] += gradient;
    }
  }

  void input_gradient(std::span<std::byte* const> operands, std::int64_t row) const {
    const T* dy = as<T>(operands[0]) + row * hidden_;
    const T* x = as<T>(operands[1]) + row * hidden_;
    const T* gain = as<T>(operands[2]);
    T* dx = as<T>(operands[5]) + row * hidden_;
    const float mean = as<float>(operands[3])[row], inverse_deviation = as<float>(operands[4])[row];
    const auto g = [=](std::int64_t i) { return widen(dy[i]) * widen(gain[i]); };
    const auto normalized = [=](std::int64_t i) { return (widen(x[i]) - mean) * inverse_deviation; };
    const float size = static_cast<float>(hidden_);
    const float mean_g = sum_of(hidden_, g) / size;
    const float projection = sum_of(hidden_, [=](std::int64_t i) { return g(i) * normalized(i); }) / size;
#pragma omp simd
    for (std::int64_t i = 0; i < hidden_; ++i) {
      dx[i] = narrow<T>((g(i) - mean_g - normalized(i) * projection) * inverse_deviation);
    }
  }

  std::int64_t hidden_;
  Partition blocks_;
};

}  // namespace

std::unique_ptr<Kernel> make_layer_norm_backward(const compiler::Graph& graph, const compiler::Op& op) {
  return make_for_dtype<LayerNormBackward>(graph, op, input(graph, op, 1).dtype);
}

}  // namespace l2l::device::kernels
