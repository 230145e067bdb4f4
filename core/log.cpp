#include "core/log.h"

#include <cstdio>
#include <memory>
#include <mutex>
#include <set>
#include <utility>

#include "core/scoped_flag.h"

namespace l2l {
namespace {

struct Sink {
  std::recursive_mutex mutex;               // held while a sink runs, which may itself log or set another
  std::shared_ptr<const LogSink> function;  // guarded by mutex; null: stderr
  bool running = false;                     // likewise
  std::set<std::string> once;               // likewise: what log_once() has said
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
  target.function = function ? std::make_shared<const LogSink>(std::move(function)) : nullptr;
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
  if (!target.function || target.running) return write_to_stderr(level, message);
  const ScopedFlag running(target.running);
  const std::shared_ptr<const LogSink> function = target.function;  // lives on where it sets another
  try {
    (*function)(level, message);
  } catch (...) {  // destructors log
    write_to_stderr(level, message);
  }
}

}  // namespace l2l
