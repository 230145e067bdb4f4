// Counterpart of matmul.cpp: the product by cuBLASLt (device/kernels/matmul_plan.h), with the bias in its epilogue
// where the library offers that. Otherwise the bias is written to y first and the product added to it, which rounds
// once, too, and moves y three times instead of once.
#include "device/kernels/common/convert.cuh"
#include "device/kernels/common/launch.cuh"
#include "device/kernels/cuda_factories.h"
#include "device/kernels/matmul_plan.h"

namespace l2l::device::cuda {
namespace {

void require_supported(const OpView& op) {
  const DType a = op.input(0).dtype, y = op.output(0).dtype;
  bool same = is_compute_type(a);
  for (std::size_t i = 1; i < op.inputs.size(); ++i) same = same && op.input(i).dtype == a;
  if (same && (y == DType::f32 || (y == a && !op.attributes.accumulate))) return;
  throw BadInput("no CUDA matmul of " + std::string(name_of(a)) + " into " +
                 (op.attributes.accumulate ? "accumulated " : "") + std::string(name_of(y)) +
                 ": inputs are f32, bf16 or f16, the output is f32 or the inputs' dtype, f32 if accumulated");
}

class Matmul final : public Kernel {
 public:
  Matmul(const OpView& op, MatmulPlan plan)
      : bias_(op.inputs.size() > 2), accumulate_(op.attributes.accumulate), plan_(std::move(plan)) {}

  Bytes workspace() const override { return plan_.workspace(); }

  void enqueue(Operands operands, std::byte* workspace, const LaunchParameters*, cudaStream_t stream) const override {
    plan_.enqueue({operands[0], operands[1], operands[bias_ ? 3 : 2], bias_ ? operands[2] : nullptr}, accumulate_,
                  workspace, stream);
  }

 private:
  bool bias_, accumulate_;
  MatmulPlan plan_;
};

constexpr int kBiasThreads = 256;

template <typename T, typename Bias>
__global__ void bias_rows(const Bias* bias, T* y, std::int64_t elements, std::int64_t columns, bool accumulate) {
  const std::int64_t first = (static_cast<std::int64_t>(blockIdx.x) * kBiasThreads + threadIdx.x) * kPack<T>;
  if (first >= elements) return;
  const bool whole = columns % kPack<T> == 0;  // a pack lies in one row, and all packs are full
  Pack<T> pack{};
  if (accumulate && whole) pack = load_pack(y + first);
  for (int i = 0; i < kPack<T>; ++i) {
    if (first + i >= elements) break;
    const float value = widen(bias[(first + i) % columns]);
    const T before = accumulate && !whole ? y[first + i] : pack.elements[i];
    pack.elements[i] = narrow<T>(accumulate ? widen(before) + value : value);
    if (!whole) y[first + i] = pack.elements[i];
  }
  if (whole) store_pack(y + first, pack);
}

// y = bias in every row; y += product. Also for an accumulated y (y += bias; y += product). The first step moves y
// once, and the bias from caches; twice where it accumulates.
class MatmulAfterBias final : public Kernel {
 public:
  // y is of the bias's dtype or f32.
  MatmulAfterBias(const OpView& op, MatmulPlan plan)
      : elements_(op.output(0).shape.elements()),
        columns_(op.output(0).shape[1]),
        y_(op.output(0).dtype),
        bias_(op.input(2).dtype),
        accumulate_(op.attributes.accumulate),
        plan_(std::move(plan)) {}

  Bytes workspace() const override { return plan_.workspace(); }

  void enqueue(Operands operands, std::byte* workspace, const LaunchParameters*, cudaStream_t stream) const override {
    const auto fill = [&]<typename T, typename Bias>(T, Bias) {
      launch("bias_rows", bias_rows<T, Bias>,
             {ceil_div(elements_, std::int64_t{kBiasThreads} * kPack<T>), kBiasThreads}, stream,
             as<const Bias>(operands[2]), as<T>(operands[3]), elements_, columns_, accumulate_);
    };
    if (bias_ == DType::f32) {
      fill(float{}, float{});
    } else if (bias_ == DType::bf16) {
      y_ == DType::f32 ? fill(float{}, __nv_bfloat16{}) : fill(__nv_bfloat16{}, __nv_bfloat16{});
    } else {
      y_ == DType::f32 ? fill(float{}, __half{}) : fill(__half{}, __half{});
    }
    plan_.enqueue({operands[0], operands[1], operands[3]}, true, workspace, stream);
  }

 private:
  std::int64_t elements_, columns_;
  DType y_, bias_;
  bool accumulate_;
  MatmulPlan plan_;
};

}  // namespace

// A part of a parameter, or of its gradient, may begin anywhere.
static std::uint32_t alignment_of(const OpView& op) {
  std::uint32_t alignment = 16;
  for (std::size_t i = 0; i < op.inputs.size() + op.outputs.size(); ++i) {
    const compiler::Value& value = op.operand(i);
    while (value.region != compiler::Region::scratch && value.offset % alignment != 0) alignment /= 2;
  }
  return alignment;
}

MatmulShape matmul_shape(const OpView& op) {
  const compiler::Value &a = op.input(0), &y = op.output(0);
  return {.m = y.shape[0],
          .n = y.shape[1],
          .k = a.shape[op.attributes.transpose_a ? 0 : 1],
          .input = a.dtype,
          .output = y.dtype,
          .transpose_a = op.attributes.transpose_a,
          .transpose_b = op.attributes.transpose_b,
          .alignment = alignment_of(op),
          .accumulate = op.attributes.accumulate};
}

const Factory make_matmul = [](const Context& context, const OpView& op) -> std::unique_ptr<Kernel> {
  require_supported(op);
  MatmulShape shape = matmul_shape(op);
  if (op.inputs.size() < 3) return std::make_unique<Matmul>(op, MatmulPlan(context, shape));
  // The library's bias has y's dtype and is added to what the product is, not to what y was.
  if (shape.input == shape.output && !op.attributes.accumulate) {
    std::optional<MatmulPlan> plan = MatmulPlan::with_bias(context, shape);
    if (plan) return std::make_unique<Matmul>(op, std::move(*plan));
  }
  shape.accumulate = true;
  return std::make_unique<MatmulAfterBias>(op, MatmulPlan(context, shape));
};

}  // namespace l2l::device::cuda
