// How the devices of a process share the summing of a layer's gradients: each sums a slice of them over all devices and
// brings the sum to the host.
#pragma once

#include <algorithm>

#include "core/bytes.h"
#include "core/dtype.h"

namespace l2l::transfer {

struct GradientSlices {
  static constexpr Bytes kAlignment = 256;  // of slices, as of tensors in an arena

  std::int64_t elements = 0;  // of the layer's gradients
  DType type = DType::f32;    // of a device's
  int devices = 1;

  // What a device has of them.
  Bytes bytes() const { return static_cast<Bytes>(elements) * size_of(type); }

  // Elements of a slice: of all the same, beyond the gradients they have no meaning.
  std::int64_t slice() const {
    const auto unit = static_cast<Bytes>(kAlignment / size_of(type));
    return static_cast<std::int64_t>(align_up((static_cast<Bytes>(elements) + count() - 1) / count(), unit));
  }
  // Of the gradients, where the slice of `device` begins, and how many elements it has of them.
  std::int64_t begin(int device) const { return std::min(elements, device * slice()); }
  std::int64_t elements_of(int device) const { return begin(device + 1) - begin(device); }

  // On each device: what the slices of all take, of its own gradients as well as of those that come from the others;
  // and its sums.
  Bytes room() const { return static_cast<Bytes>(devices * slice()) * size_of(type); }
  Bytes sums() const { return static_cast<Bytes>(slice()) * size_of(DType::f32); }
  // What a device brings to the host: the sums of its slice, or, by itself, all of its gradients.
  Bytes brought(int device) const {
    return devices == 1 ? bytes() : static_cast<Bytes>(elements_of(device)) * size_of(DType::f32);
  }
  // What each device receives from the others.
  Bytes received() const { return room() / count() * (count() - 1); }

 private:
  Bytes count() const { return static_cast<Bytes>(devices); }
};

}  // namespace l2l::transfer
