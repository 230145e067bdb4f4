#include "device/kernels/matmul.h"
#include "device/kernels/packed_product.h"

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

void MatmulPlan::run(const MatmulOperands& operands, std::byte* workspace, Workers& workers) const {
  const PackedProduct& product = implementation_->product;
  const Partition blocks = tile_blocks(product.tiles(), product.shape());
  workers.parallel_for(blocks.count(), [&](std::int64_t block, int slot) {
    std::byte* const own = workspace + product.workspace() * static_cast<Bytes>(slot);
    for (std::int64_t tile = blocks.begin(block); tile < blocks.end(block); ++tile) product.run(tile, operands, own);
  });
}

bool has_instructions(DType input) { return input == DType::f32; }

std::string_view matmul_library() { return "portable"; }

}  // namespace l2l::device::kernels
