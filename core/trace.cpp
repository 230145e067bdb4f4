#include "core/trace.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>

#include "base/json.h"
#include "l2l/errors.h"

namespace l2l {
namespace {

using Json = nlohmann::ordered_json;

// The format's unit is the microsecond. Negative: begun before the trace.
double microseconds(std::int64_t ns) { return static_cast<double>(ns) / 1000; }

Json arguments(int layer, int microbatch) {
  Json json = Json::object();
  if (layer >= 0) json["layer"] = layer;
  if (microbatch >= 0) json["microbatch"] = microbatch;
  return json;
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

std::string_view Trace::keep_locked(std::string_view name) {
  auto kept = names_.find(name);
  if (kept == names_.end()) kept = names_.emplace(name).first;
  return *kept;
}

std::string_view Trace::keep(std::string_view name) {
  const std::lock_guard lock(mutex_);
  return keep_locked(name);
}

void Trace::record(int track, std::string_view name, Clock::time_point begin, Clock::time_point end, int layer,
                   int microbatch) {
  const std::lock_guard lock(mutex_);
  if (spans_.size() == spans_.capacity()) {
    ++dropped_;
    return;
  }
  spans_.push_back(
      {keep_locked(name), nanoseconds(begin - start_), nanoseconds(end - start_), track, layer, microbatch});
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
  const auto metadata = [](const char* what, const std::string& name) {
    return Json{{"name", what}, {"ph", "M"}, {"pid", 1}, {"args", {{"name", name}}}};
  };
  out << "{\"displayTimeUnit\":\"ms\",\"otherData\":{\"dropped_spans\":" << dropped_ << "},\"traceEvents\":[\n"
      << json_text(metadata("process_name", "l2l"));
  for (std::size_t track = 0; track < tracks_.size(); ++track) {
    Json name = metadata("thread_name", tracks_[track]);
    name["tid"] = track;
    out << ",\n" << json_text(name);
  }
  for (const Span& span : spans_) {
    out << ",\n"
        << json_text(Json{{"name", span.name},
                          {"ph", "X"},
                          {"pid", 1},
                          {"tid", span.track},
                          {"ts", microseconds(span.begin_ns)},
                          {"dur", microseconds(span.end_ns - span.begin_ns)},
                          {"args", arguments(span.layer, span.microbatch)}});
  }
  out << "\n]}\n";
  out.close();
  if (!out) throw Error("the trace cannot be written to " + file + ": " + std::strerror(errno));
}

}  // namespace l2l
