// What both passes of head_norm share on the host. A row of qkv is [q | k | v] (attention.h): heads of q and k are
// normed, each by itself, those of v are not.
#pragma once

#include "device/kernels/common/operands.h"
#include "device/kernels/kernel.h"

namespace l2l::device::kernels {

struct HeadNormShape {
  std::int64_t rows, width, heads, normed, size;  // normed: heads of queries and keys; size: of a head
  float epsilon, offset;                          // the gain is offset + weight

  // `qkv` is [rows, width], width = (heads + 2 kv_heads) size.
  HeadNormShape(const compiler::Value& qkv, const compiler::Attributes& attributes)
      : rows(qkv.shape[0]),
        width(qkv.shape[1]),
        heads(attributes.heads),
        normed(heads + compiler::kv_heads(attributes)),
        size(width / (normed + compiler::kv_heads(attributes))),
        epsilon(attributes.epsilon),
        offset(attributes.unit_offset ? 1.0f : 0.0f) {}
};

}  // namespace l2l::device::kernels
