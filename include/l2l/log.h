// Messages of the library, and how an embedding program receives them.
#pragma once

#include <functional>
#include <string_view>

#include "l2l/export.h"

namespace l2l {

enum class LogLevel { info, warning, error };
using LogSink = std::function<void(LogLevel, std::string_view message)>;

// Replaces the sink of the process (default: one line each on stderr); an empty function restores it. Thread-safe.
L2L_API void set_log_sink(LogSink sink);

}  // namespace l2l
