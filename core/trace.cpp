#include "core/trace.h"

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <utility>

#include "l2l/errors.h"

namespace l2l {
namespace {

std::string json_string(std::string_view text) {
  std::string json = "\"";
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    if (code < 0x20) {
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\u%04x", code);
      json += escape;
    } else {
      if (c == '"' || c == '\\') json += '\\';
      json += c;
    }
  }
  return json + '"';
}

// The format's unit is the microsecond; nanoseconds are decimals. Negative: begun before the trace.
std::string microseconds(std::int64_t ns) {
  char text[32];
  std::snprintf(text, sizeof text, "%s%" PRId64 ".%03d", ns < 0 ? "-" : "", std::abs(ns) / 1000,
                static_cast<int>(std::abs(ns) % 1000));
  return text;
}

std::string arguments(int layer, int microbatch) {
  std::string json = ",\"args\":{";
  if (layer >= 0) json += "\"layer\":" + std::to_string(layer);
  if (microbatch >= 0) json += (layer >= 0 ? ",\"microbatch\":" : "\"microbatch\":") + std::to_string(microbatch);
  return json + "}";
}

std::int64_t nanoseconds(Clock::duration duration) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(duration).count();
}

}  // namespace

Trace::Trace(std::size_t capacity) {
  spans_.resize(capacity);  // touches the memory
  spans_.clear();
}

int Trace::add_track(std::string name) {
  const std::lock_guard lock(mutex_);
  tracks_.push_back(std::move(name));
  return static_cast<int>(tracks_.size()) - 1;
}

void Trace::record(int track, std::string_view name, Clock::time_point begin, Clock::time_point end, int layer,
                   int microbatch) {
  const std::lock_guard lock(mutex_);
  if (spans_.size() == spans_.capacity()) {
    ++dropped_;
    return;
  }
  spans_.push_back({name, nanoseconds(begin - start_), nanoseconds(end - start_), track, layer, microbatch});
}

std::vector<Trace::Span> Trace::spans() const {
  const std::lock_guard lock(mutex_);
  return spans_;
}

std::vector<std::string> Trace::tracks() const {
  const std::lock_guard lock(mutex_);
  return tracks_;
}

std::size_t Trace::dropped() const {
  const std::lock_guard lock(mutex_);
  return dropped_;
}

void Trace::write(const std::string& file) const {
  const std::lock_guard lock(mutex_);
  std::ofstream out(file, std::ios::binary | std::ios::trunc);
  out << "{\"displayTimeUnit\":\"ms\",\"otherData\":{\"dropped_spans\":" << dropped_ << "},\"traceEvents\":[\n"
      << "{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":1,\"args\":{\"name\":\"l2l\"}}";
  for (std::size_t track = 0; track < tracks_.size(); ++track) {
    out << ",\n{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":1,\"tid\":" << track
        << ",\"args\":{\"name\":" << json_string(tracks_[track]) << "}}";
  }
  for (const Span& span : spans_) {
    out << ",\n{\"name\":" << json_string(span.name) << ",\"ph\":\"X\",\"pid\":1,\"tid\":" << span.track
        << ",\"ts\":" << microseconds(span.begin_ns) << ",\"dur\":" << microseconds(span.end_ns - span.begin_ns)
        << arguments(span.layer, span.microbatch) << "}";
  }
  out << "\n]}\n";
  out.close();
  if (!out) throw Error("cannot write the trace to " + file + ": check that the folder exists and has space");
}

}  // namespace l2l
