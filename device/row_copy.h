// Rows that the host copies itself.
#pragma once

#include <cstring>

#include "device/device.h"

namespace l2l::device {

// At once, in memory that the host can read and write.
inline void copy_here(const RowCopy& rows) {
  for (Bytes i = 0; i < rows.rows; ++i) {
    std::memcpy(rows.destination + i * rows.destination_stride, rows.source + i * rows.source_stride, rows.row);
  }
}

}  // namespace l2l::device
