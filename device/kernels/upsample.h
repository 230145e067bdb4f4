// Images that are made larger, on the host.
#pragma once

#include "device/kernels/common/interpolation.h"
#include "device/kernels/windows.h"

namespace l2l::device::kernels {

struct Upsampling {
  std::int64_t samples, channels;
  InterpolatedSide height, width;

  explicit Upsampling(const compiler::Attributes& attributes)
      : samples(attributes.dims[0]), channels(attributes.dims[3]), height(attributes, 0), width(attributes, 1) {}
};

}  // namespace l2l::device::kernels
