#include "device/device.h"

#include <cassert>

namespace l2l::device {

BufferView BufferView::slice(Bytes offset, Bytes bytes) const {
  assert(offset <= size && bytes <= size - offset);
  return {data + offset, bytes};
}

}  // namespace l2l::device
