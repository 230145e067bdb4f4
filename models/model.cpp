#include "models/model.h"

#include <algorithm>

namespace l2l::models {

Bytes Model::carry_bytes() const {
  if (chunks.count == 0) return 0;
  // One microbatch's logits of a chunk also pass through it.
  Bytes bytes = static_cast<Bytes>(logits_tokens()) * size_of(compute);
  for (int layer = head(); layer < layers(); ++layer) {
    bytes = std::max(bytes, type(layer).forward.region_bytes(device::graph::Region::carry));
    bytes = std::max(bytes, type(layer).backward.region_bytes(device::graph::Region::carry));
  }
  return bytes;
}

}  // namespace l2l::models
