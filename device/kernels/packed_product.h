// Matrix products of our own: what stands in for oneDNN where it is missing, and serves the shapes it is slow at.
#pragma once

#include "core/bytes.h"
#include "device/kernels/matmul.h"
#include "device/kernels/matmul_tiles.h"

namespace l2l::device::kernels {

// Tiles of a product, to be multiplied on one thread each.
class PackedProduct {
 public:
  explicit PackedProduct(const MatmulShape& shape) : shape_(shape), tiles_(own_tiles(shape)) {}

  std::int64_t tiles() const { return tiles_.count(); }
  // Bytes per tile at work, 64-byte aligned when handed to run.
  Bytes workspace() const;
  // `operands` are those of the whole product.
  void run(std::int64_t tile, const MatmulOperands& operands, std::byte* workspace) const;

 private:
  MatmulShape shape_;
  TileGrid tiles_;
};

}  // namespace l2l::device::kernels
