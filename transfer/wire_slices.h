// How the devices of a process share the copying of a layer's wire: a slice each, which they then gather from each
// other.
#pragma once

#include <algorithm>

#include "core/bytes.h"

namespace l2l::transfer {

struct WireSlices {
  static constexpr Bytes kAlignment = 256;  // of slices, as of tensors in an arena

  Bytes wire = 0;
  int devices = 1;  // 1: it copies all of it

  // Bytes of a slice, and what the slices of all take; beyond the wire it holds nothing.
  Bytes slice() const {
    const auto count = static_cast<Bytes>(devices);
    return devices == 1 ? wire : align_up((wire + count - 1) / count, kAlignment);
  }
  Bytes room() const { return static_cast<Bytes>(devices) * slice(); }
  // Of the wire, where the slice of `device` begins and how much there is of it.
  Bytes begin(int device) const { return std::min(wire, static_cast<Bytes>(device) * slice()); }
  Bytes bytes(int device) const { return begin(device + 1) - begin(device); }
  // What each device receives from the others.
  Bytes received() const { return room() - slice(); }
};

}  // namespace l2l::transfer
