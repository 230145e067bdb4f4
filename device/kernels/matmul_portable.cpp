#include "device/kernels/matmul.h"
#include "device/kernels/packed_product.h"
#include "device/kernels/tasks.h"

namespace l2l::device::kernels {

struct MatmulPlan::Implementation {
  PackedProduct product;
};

MatmulPlan::MatmulPlan(const MatmulShape& shape)
    : implementation_(std::make_unique<Implementation>(Implementation{PackedProduct(shape)})) {}

MatmulPlan::~MatmulPlan() = default;
MatmulPlan::MatmulPlan(MatmulPlan&&) noexcept = default;

Bytes MatmulPlan::workspace(int threads) const {
  return implementation_->product.workspace() * static_cast<Bytes>(threads);
}

void MatmulPlan::prepare(int) {}

void MatmulPlan::run(const MatmulOperands& operands, std::byte* workspace, Workers& workers) const {
  const PackedProduct& product = implementation_->product;
  for_tasks(workers, product.tiles(), product.shape().products(), [&](std::int64_t tile, int slot) {
    product.run(tile, operands, workspace + product.workspace() * static_cast<Bytes>(slot));
  });
}

bool has_instructions(DType input) { return input == DType::f32; }

std::string_view matmul_library() { return "portable"; }

}  // namespace l2l::device::kernels
