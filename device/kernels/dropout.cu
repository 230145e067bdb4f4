#include "device/kernels/common/elementwise.cuh"
#include "device/kernels/common/operands.h"
#include "device/kernels/common/random.cuh"
#include "device/kernels/cuda_factories.h"

namespace l2l::device::cuda {
namespace {

// Moves 2 elements of T per element (3 with a residual) and draws one word.
template <typename T, bool kAdd>
struct DropoutBody {
  const T *x, *residual;
  T* y;
  const LaunchParameters* parameters;
  std::uint32_t rng_op;
  float probability;
  DropoutMask mask;

  __device__ void prepare() { mask = DropoutMask(parameters, rng_op, probability); }

  template <int Count>
  __device__ void at(std::int64_t first) const {
    Floats<Count> result = dropped(mask, first, load_floats<Count>(x + first));
    if constexpr (kAdd) {
      const Floats<Count> other = load_floats<Count>(residual + first);
#pragma unroll
      for (int i = 0; i < Count; ++i) result[i] = rounded<T>(result[i]) + other[i];
    }
    store_floats(y + first, result);
  }
};

template <typename T, bool kAdd>
class Dropout final : public Kernel {
 public:
  Dropout(const Context& context, const compiler::Graph& graph, const compiler::Op& op)
      : context_(context), attributes_(op.attributes), elements_(kernels::output(graph, op, 0).shape.elements()) {
    require_random_elements(elements_);
  }

  void enqueue(std::span<std::byte* const> operands, std::byte*, const LaunchParameters* parameters,
               cudaStream_t stream) const override {
    DropoutBody<T, kAdd> body{};
    body.x = kernels::as<T>(operands[0]);
    if (kAdd) body.residual = kernels::as<T>(operands[1]);
    body.y = kernels::as<T>(operands[kAdd ? 2 : 1]);
    body.parameters = parameters;
    body.rng_op = attributes_.rng_op;
    body.probability = attributes_.probability;
    launch_elementwise<kPack<T>>(kAdd ? "dropout_add" : "dropout", context_, elements_, body, stream);
  }

 private:
  Context context_;
  compiler::Attributes attributes_;
  std::int64_t elements_;
};

template <typename T>
using Plain = Dropout<T, false>;
template <typename T>
using WithResidual = Dropout<T, true>;

}  // namespace

std::unique_ptr<Kernel> make_dropout(const Context& context, const compiler::Graph& graph, const compiler::Op& op) {
  return make_for<Plain, Kernel>(kernels::output(graph, op, 0).dtype, context, graph, op);
}

std::unique_ptr<Kernel> make_dropout_add(const Context& context, const compiler::Graph& graph, const compiler::Op& op) {
  return make_for<WithResidual, Kernel>(kernels::output(graph, op, 0).dtype, context, graph, op);
}

}  // namespace l2l::device::cuda
