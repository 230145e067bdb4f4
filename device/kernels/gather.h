// What gather and its gradient share on the host.
#pragma once

#include <cstdint>
#include <string>

#include "device/kernels/common/operands.h"
#include "l2l/errors.h"

namespace l2l::device::kernels {

// Of each of `samples` samples, `taken` of its `rows` rows are taken.
struct GatheredSamples {
  std::int64_t samples, rows, taken;

  explicit GatheredSamples(const OpView& op)
      : samples(op.attributes.dims[0]),
        rows(op.attributes.dims[1]),
        taken((op.kind == compiler::OpKind::gather ? op.input(1) : op.input(0)).shape[0] / samples) {}

  // The index at `place`.
  std::int64_t checked(const char* op, const std::int32_t* indices, std::int64_t place) const {
    const std::int32_t index = indices[place];
    if (index >= 0 && index < rows) return index;
    throw BadInput(std::string(op) + ": index " + std::to_string(index) + " of sample " +
                   std::to_string(place / taken) + " of the microbatch is outside its " + std::to_string(rows) +
                   " rows");
  }
};

}  // namespace l2l::device::kernels
