// y = GELU(op(a) op(b) + bias), and pre, what GELU read, where the graph asks for it. In the library's epilogue where
// it offers one for a 16-bit type; otherwise, and where Context::library_gelu is off, the ops that it stands for, one
// after the other (unfuse.h), which move pre twice more. The library's GELU reads pre before it is rounded
// (matmul_plan.h).
#include <algorithm>
#include <array>
#include <optional>

#include "compiler/fusion/unfuse.h"
#include "device/kernels/common/operands.h"
#include "device/kernels/cuda_factories.h"
#include "device/kernels/matmul_plan.h"
#include "l2l/errors.h"

namespace l2l::device::cuda {
namespace {

// Operands: a, b, bias, y, (pre).
constexpr std::size_t kBias = 2, kY = 3, kPre = 4;

class MatmulGelu final : public Kernel {
 public:
  explicit MatmulGelu(MatmulPlan plan) : plan_(std::move(plan)) {}

  Bytes workspace() const override { return plan_.workspace(); }

  void enqueue(Operands operands, std::byte* workspace, const LaunchParameters*, cudaStream_t stream) const override {
    std::byte* const pre = operands.size() > kPre ? operands[kPre] : nullptr;
    plan_.enqueue({operands[0], operands[1], operands[kY], operands[kBias], pre}, false, workspace, stream);
  }

 private:
  MatmulPlan plan_;
};

// The product into pre, or into y where nobody asks for pre; then GELU from there into y (element by element: in
// place).
class MatmulThenGelu final : public Kernel {
 public:
  MatmulThenGelu(const Context& context, const OpView& op)
      : parts_(compiler::unfused(op.graph, op.op)),
        product_(make_kernel(context, parts_, 0)),
        gelu_(make_kernel(context, parts_, 1)) {}

  Bytes workspace() const override { return std::max(product_->workspace(), gelu_->workspace()); }

  void enqueue(Operands operands, std::byte* workspace, const LaunchParameters* parameters,
               cudaStream_t stream) const override {
    std::byte* const pre = operands[operands.size() > kPre ? kPre : kY];
    product_->enqueue(std::array{operands[0], operands[1], operands[kBias], pre}, workspace, parameters, stream);
    gelu_->enqueue(std::array{pre, operands[kY]}, workspace, parameters, stream);
  }

 private:
  compiler::Graph parts_;
  std::unique_ptr<Kernel> product_, gelu_;
};

}  // namespace

const Factory make_matmul_gelu = [](const Context& context, const OpView& op) -> std::unique_ptr<Kernel> {
  const MatmulShape shape = matmul_shape(op);
  const bool one_type = op.input(kBias).dtype == shape.output && shape.input == shape.output;
  // Nobody says how exact the library's GELU is: it may do for 16 bits only.
  if (context.library_gelu && one_type && shape.output != DType::f32 && !op.attributes.exact) {
    const Epilogue epilogue = op.outputs.size() > 1 ? Epilogue::gelu_and_pre : Epilogue::gelu;
    std::optional<MatmulPlan> plan = MatmulPlan::with(context, shape, epilogue);
    if (plan) return std::make_unique<MatmulGelu>(std::move(*plan));
  }
  return std::make_unique<MatmulThenGelu>(context, op);
};

}  // namespace l2l::device::cuda
