#include "models/model.h"

#include <algorithm>

namespace l2l::models {

DType stream_dtype(Reversible reversible, DType compute) {
  if (reversible == Reversible::fixed) return DType::i32;
  return reversible == Reversible::floating ? DType::f32 : compute;
}

DType Model::stream_dtype() const { return models::stream_dtype(reversible, compute); }

Bytes Model::carry_bytes() const {
  if (chunks.count == 0) return 0;
  // One microbatch's logits of a chunk also pass through it.
  Bytes bytes = static_cast<Bytes>(logits_tokens()) * size_of(compute);
  for (int layer = head(); layer < layers(); ++layer) {
    bytes = std::max(bytes, type(layer).forward.region_bytes(compiler::Region::carry));
    bytes = std::max(bytes, type(layer).backward.region_bytes(compiler::Region::carry));
  }
  return bytes;
}

}  // namespace l2l::models
