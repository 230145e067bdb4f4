// The shape of head_norm and its backward, on the host and on CUDA. A row of qkv is [q | k | v], each with its heads
// side by side: heads of q and k are normed, each by itself, those of v are copied.
#pragma once

#include "compiler/ir/graph.h"

namespace l2l::device::kernels {

// Immutable, and copied into CUDA kernels.
struct HeadNormShape {
  std::int64_t rows, width;
  int heads, normed, all, size;  // heads of queries; with keys; with values; elements of each
  float epsilon, offset;         // the gain is offset + weight

  // `qkv` is [rows, width], width = (heads + 2 kv_heads) size.
  HeadNormShape(const compiler::Value& qkv, const compiler::Attributes& attributes)
      : rows(qkv.shape[0]),
        width(qkv.shape[1]),
        heads(attributes.heads),
        normed(heads + compiler::kv_heads(attributes)),
        all(normed + compiler::kv_heads(attributes)),
        size(static_cast<int>(width / all)),
        epsilon(attributes.epsilon),
        offset(attributes.unit_offset ? 1.0f : 0.0f) {}
};

}  // namespace l2l::device::kernels
