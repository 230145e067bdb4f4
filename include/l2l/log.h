// Messages of the library, and how an embedding program receives them.
#pragma once

#include <functional>
#include <string_view>

#include "l2l/export.h"

namespace l2l {

enum class LogLevel { info, warning, error };
using LogSink = std::function<void(LogLevel, std::string_view message)>;

// Replaces the sink of the process (default: one line each on stderr); an empty function restores it. Thread-safe: one
// message at a time is given to a sink, and none to the old one once this has returned. A sink may call this, but not
// wait for a thread that logs or calls it; what is logged within a sink, as by the library when it is used there, goes
// to stderr, and so does a message for which the sink throws; what it throws is dropped.
L2L_API void set_log_sink(LogSink sink);

}  // namespace l2l
