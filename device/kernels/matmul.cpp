#include "device/kernels/matmul.h"

#include "device/kernels/common/operands.h"
#include "device/kernels/factories.h"

namespace l2l::device::kernels {
namespace {

MatmulShape shape_of(const OpView& op) {
  const compiler::Value &a = op.input(0), &y = op.output(0);
  const compiler::Attributes& attributes = op.attributes;
  return {.m = y.shape[0],
          .n = y.shape[1],
          .k = a.shape[attributes.transpose_a ? 0 : 1],
          .input = a.dtype,
          .output = y.dtype,
          .transpose_a = attributes.transpose_a,
          .transpose_b = attributes.transpose_b,
          .bias = op.inputs.size() > 2,
          .accumulate = attributes.accumulate};
}

void require_supported(const OpView& op, const MatmulShape& shape) {
  op.require_dtype(shape.input, {1});
  if (shape.bias) op.require_dtype(shape.input, {2});
  const bool input_known = is_compute_type(shape.input);
  const bool output_known = shape.output == DType::f32 || shape.output == shape.input;
  if (!input_known || !output_known || (shape.accumulate && shape.output != DType::f32)) {
    throw BadInput("no host matmul of " + std::string(name_of(shape.input)) + " into " +
                   (shape.accumulate ? "accumulated " : "") + std::string(name_of(shape.output)) +
                   ": inputs are f32, bf16 or f16, the output is f32 or the inputs' dtype, f32 if accumulated");
  }
}

class Matmul final : public Kernel {
 public:
  Matmul(const MatmulShape& shape) : bias_(shape.bias), plan_(shape) {}

  Bytes workspace(int threads) const override { return plan_.workspace(threads); }
  void prepare(int threads) override { plan_.prepare(threads); }

  void run(Operands operands, std::byte* workspace, const LaunchParameters&, Workers& workers) const override {
    plan_.run({operands[0], operands[1], bias_ ? operands[2] : nullptr, operands[bias_ ? 3 : 2]}, workspace, workers);
  }

 private:
  bool bias_;
  MatmulPlan plan_;
};

}  // namespace

const Factory make_matmul = [](const OpView& op) -> std::unique_ptr<Kernel> {
  const MatmulShape shape = shape_of(op);
  require_supported(op, shape);
  return std::make_unique<Matmul>(shape);
};

}  // namespace l2l::device::kernels
