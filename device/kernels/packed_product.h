// Our own matrix products: used where oneDNN is missing, and for shapes at which it is slow.
#pragma once

#include "core/bytes.h"
#include "device/kernels/matmul.h"
#include "device/kernels/matmul_tiles.h"

namespace l2l::device::kernels {

// A product in tiles, each multiplied by one thread.
class PackedProduct {
 public:
  explicit PackedProduct(const MatmulShape& shape) : shape_(shape), tiles_(own_tiles(shape)) {}

  std::int64_t tiles() const { return tiles_.count(); }
  const MatmulShape& shape() const { return shape_; }
  // Bytes of the 64-byte aligned workspace that run() needs.
  Bytes workspace() const;
  // `operands` are those of the whole product.
  void run(std::int64_t tile, const MatmulOperands& operands, std::byte* workspace) const;

 private:
  MatmulShape shape_;
  TileGrid tiles_;
};

}  // namespace l2l::device::kernels
