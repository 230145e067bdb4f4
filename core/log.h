// Writes to the process's log sink (include/l2l/log.h).
#pragma once

#include <string>

#include "l2l/log.h"

namespace l2l {

// Thread-safe; calls of the sink are serialised. Throws nothing that a sink throws.
void log(LogLevel level, std::string_view message);
// The same, but each message once in a process. Thread-safe.
void log_once(LogLevel level, const std::string& message);

}  // namespace l2l
