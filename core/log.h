// Writes to the process's log sink (include/l2l/log.h).
#pragma once

#include "l2l/log.h"

namespace l2l {

// Thread-safe; calls of the sink are serialised.
void log(LogLevel level, std::string_view message);

}  // namespace l2l
