// Counterpart of matmul.cpp: the product by cuBLASLt (device/kernels/matmul_plan.h), with the bias in its epilogue
// where the library offers that. Otherwise the bias is written to y first and the product added to it, which rounds
// once, too, and moves y three times instead of once.
#include "device/kernels/common/bias_rows.h"
#include "device/kernels/common/operands.h"
#include "device/kernels/cuda_factories.h"
#include "device/kernels/matmul_plan.h"

namespace l2l::device::cuda {
namespace {

using kernels::as;
using kernels::input;
using kernels::output;

void require_supported(const compiler::Graph& graph, const compiler::Op& op) {
  const DType a = input(graph, op, 0).dtype, y = output(graph, op, 0).dtype;
  bool same = is_compute_type(a);
  for (std::size_t i = 1; i < op.inputs.size(); ++i) same = same && input(graph, op, i).dtype == a;
  if (same && (y == DType::f32 || (y == a && !op.attributes.accumulate))) return;
  throw BadInput("no CUDA matmul of " + std::string(name_of(a)) + " into " +
                 (op.attributes.accumulate ? "accumulated " : "") + std::string(name_of(y)) +
                 ": inputs are f32, bf16 or f16, the output is f32 or the inputs' dtype, f32 if accumulated");
}

class Matmul final : public Kernel {
 public:
  Matmul(const compiler::Op& op, MatmulPlan plan)
      : bias_(op.inputs.size() > 2), accumulate_(op.attributes.accumulate), plan_(std::move(plan)) {}

  Bytes workspace() const override { return plan_.workspace(); }

  void enqueue(std::span<std::byte* const> operands, std::byte* workspace, const LaunchParameters*,
               cudaStream_t stream) const override {
    plan_.enqueue({operands[0], operands[1], operands[bias_ ? 3 : 2], bias_ ? operands[2] : nullptr}, accumulate_,
                  workspace, stream);
  }

 private:
  bool bias_, accumulate_;
  MatmulPlan plan_;
};

// y = bias in every row; y += product. Also for an accumulated y (y += bias; y += product).
class MatmulAfterBias final : public Kernel {
 public:
  MatmulAfterBias(const compiler::Graph& graph, const compiler::Op& op, MatmulPlan plan)
      : rows_(output(graph, op, 0), input(graph, op, 2).dtype, op.attributes.accumulate), plan_(std::move(plan)) {}

  Bytes workspace() const override { return plan_.workspace(); }

  void enqueue(std::span<std::byte* const> operands, std::byte* workspace, const LaunchParameters*,
               cudaStream_t stream) const override {
    rows_.enqueue(operands[2], operands[3], stream);
    plan_.enqueue({operands[0], operands[1], operands[3]}, true, workspace, stream);
  }

 private:
  BiasRows rows_;
  MatmulPlan plan_;
};

}  // namespace

MatmulShape matmul_shape(const compiler::Graph& graph, const compiler::Op& op) {
  const compiler::Value& a = input(graph, op, 0);
  const compiler::Value& y = output(graph, op, 0);
  MatmulShape shape;
  shape.m = y.shape[0];
  shape.n = y.shape[1];
  shape.k = a.shape[op.attributes.transpose_a ? 0 : 1];
  shape.input = a.dtype;
  shape.output = y.dtype;
  shape.transpose_a = op.attributes.transpose_a;
  shape.transpose_b = op.attributes.transpose_b;
  return shape;
}

std::unique_ptr<Kernel> make_matmul(const Context& context, const compiler::Graph& graph, const compiler::Op& op) {
  require_supported(graph, op);
  const MatmulShape shape = matmul_shape(graph, op);
  if (op.inputs.size() < 3) return std::make_unique<Matmul>(op, MatmulPlan(context, shape));
  // The library's bias has y's dtype and is added to what the product is, not to what y was.
  if (shape.input == shape.output && !op.attributes.accumulate) {
    std::optional<MatmulPlan> plan = MatmulPlan::with(context, shape, Epilogue::bias);
    if (plan) return std::make_unique<Matmul>(op, std::move(*plan));
  }
  return std::make_unique<MatmulAfterBias>(graph, op, MatmulPlan(context, shape));
}

}  // namespace l2l::device::cuda
