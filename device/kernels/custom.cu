// Calls what the program gave; there are no kernels of ours.
#include <cstddef>

#include "device/kernels/common/check.h"
#include "device/kernels/cuda_factories.h"
#include "l2l/custom_op.h"

namespace l2l::device::cuda {
namespace {

// DrawPlace is how LaunchParameters begin, so that both may be read where they lie in device memory.
static_assert(offsetof(DrawPlace, seed) == offsetof(LaunchParameters, seed));
static_assert(offsetof(DrawPlace, step) == offsetof(LaunchParameters, step));
static_assert(offsetof(DrawPlace, layer) == offsetof(LaunchParameters, layer));
static_assert(offsetof(DrawPlace, microbatch) == offsetof(LaunchParameters, microbatch));
static_assert(offsetof(DrawPlace, training) == offsetof(LaunchParameters, training));

CustomOnGpu::Element element_of(DType dtype) {
  if (dtype == DType::f32) return CustomOnGpu::Element::fp32;
  return dtype == DType::bf16 ? CustomOnGpu::Element::bf16 : CustomOnGpu::Element::fp16;
}

// `x`, `y`, `parameters`: positions of operands.
CustomOnGpu call_of(const OpView& op, std::size_t x, std::size_t y, std::size_t parameters) {
  CustomOnGpu call;
  call.rows = op.operand(x).shape[0];
  call.columns = op.operand(x).shape[1];
  call.result_columns = op.operand(y).shape[1];
  if (op.inputs.size() > parameters) call.parameter_count = op.input(parameters).shape.elements();
  call.element = element_of(op.operand(x).dtype);
  call.op = op.attributes.rng_op;
  return call;
}

class CustomKernel : public Kernel {
 public:
  CustomKernel(const OpView& op, const CustomOnGpu& call)
      : op_(op.attributes.custom.op), call_(call), name_("custom op \"" + op_->name + "\"") {
    if (op_->gpu_forward && op_->gpu_backward) return;
    throw BadInput(name_ +
                   " has no functions for a GPU (CustomOp::gpu_forward, gpu_backward): give it some, or use "
                   "device.kind = \"host\"");
  }

  Bytes workspace() const override { return op_->gpu_workspace ? op_->gpu_workspace(call_) : 0; }

 protected:
  void set(CustomOnGpu& call, std::byte* workspace, const LaunchParameters* parameters, cudaStream_t stream) const {
    call = call_;
    call.workspace = workspace;
    call.place = reinterpret_cast<const DrawPlace*>(parameters);
    call.stream = stream;
  }
  // Of the launches just enqueued.
  void check_launches() const { check(cudaGetLastError(), name_.c_str()); }

  const std::shared_ptr<const CustomOp> op_;

 private:
  const CustomOnGpu call_;  // what is the same in all calls
  const std::string name_;  // in messages
};

// x, (parameters) -> y
class CustomForwardKernel final : public CustomKernel {
 public:
  CustomForwardKernel(const Context&, const OpView& op) : CustomKernel(op, call_of(op, 0, op.inputs.size(), 1)) {}

  void enqueue(Operands operands, std::byte* workspace, const LaunchParameters* parameters,
               cudaStream_t stream) const override {
    CustomForwardOnGpu call;
    set(call, workspace, parameters, stream);
    call.x = operands[0];
    if (call.parameter_count > 0) call.parameters = operands[1];
    call.y = operands.back();
    op_->gpu_forward(call);
    check_launches();
  }
};

// dy, x, y, (parameters) -> dx, (dparameters)
class CustomBackwardKernel final : public CustomKernel {
 public:
  CustomBackwardKernel(const Context&, const OpView& op)
      : CustomKernel(op, call_of(op, 1, 2, 3)), inputs_(op.inputs.size()), trained_(op.outputs.size() > 1) {}

  void enqueue(Operands operands, std::byte* workspace, const LaunchParameters* parameters,
               cudaStream_t stream) const override {
    CustomBackwardOnGpu call;
    set(call, workspace, parameters, stream);
    call.dy = operands[0];
    call.x = operands[1];
    call.y = operands[2];
    if (call.parameter_count > 0) call.parameters = operands[3];
    call.dx = operands[inputs_];
    if (trained_) call.dparameters = as<float>(operands[inputs_ + 1]);
    op_->gpu_backward(call);
    check_launches();
  }

 private:
  std::size_t inputs_;
  bool trained_;
};

}  // namespace

const Factory make_custom = make_one<CustomForwardKernel>;
const Factory make_custom_backward = make_one<CustomBackwardKernel>;

}  // namespace l2l::device::cuda
