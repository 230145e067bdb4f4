#include "core/log.h"

#include <cstdio>
#include <mutex>
#include <set>
#include <utility>

namespace l2l {
namespace {

struct Sink {
  std::mutex mutex;
  LogSink function;            // guarded by mutex
  std::set<std::string> once;  // likewise: what log_once() has said
};

// Never destroyed: threads may still log while the process exits.
Sink& sink() {
  static Sink& instance = *new Sink;
  return instance;
}

void write_to_stderr(LogLevel level, std::string_view message) {
  const char* prefix = level == LogLevel::error ? "error: " : level == LogLevel::warning ? "warning: " : "";
  std::fprintf(stderr, "%s%.*s\n", prefix, static_cast<int>(message.size()), message.data());
}

}  // namespace

void set_log_sink(LogSink function) {
  Sink& target = sink();
  const std::lock_guard lock(target.mutex);
  target.function = std::move(function);
}

void log_once(LogLevel level, const std::string& message) {
  Sink& target = sink();
  {
    const std::lock_guard lock(target.mutex);
    if (!target.once.insert(message).second) return;
  }
  log(level, message);
}

void log(LogLevel level, std::string_view message) {
  Sink& target = sink();
  const std::lock_guard lock(target.mutex);
  if (target.function) {
    target.function(level, message);
  } else {
    write_to_stderr(level, message);
  }
}

}  // namespace l2l
