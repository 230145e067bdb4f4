// The part of Workers that both implementations share.
#include "core/workers.h"

#include <algorithm>
#include <exception>

#include "core/activity.h"
#include "core/control_groups.h"
#include "core/denormals.h"
#include "core/fault_point.h"
#include "core/trace.h"

namespace l2l {
namespace {

std::int64_t now() { return Clock::now().time_since_epoch().count(); }

Clock::time_point at(std::int64_t ticks) { return Clock::time_point(Clock::duration(ticks)); }

}  // namespace

void Workers::parallel_for(std::int64_t blocks, BlockFunction function) {
  const auto one = [&](std::int64_t block, int slot) {
    try {
      const ActivitySpan span(Doing::job, "a block");
      function(block, slot);
    } catch (const std::exception&) {  // others are for the caller alone
      std::rethrow_exception(named_exception());
    }
  };
  if (trace_ == nullptr) return run(blocks, one);
  for (Span& span : spans_) span.worked = false;  // where a block of the call before failed
  run(blocks, [&](std::int64_t block, int slot) {
    Span& span = spans_[static_cast<std::size_t>(slot)];
    if (!span.worked) span.begin = now();
    span.worked = true;
    one(block, slot);
    span.end = now();
  });
  for (Span& span : spans_) {
    if (span.worked) trace_->record(span.track, span_name_, at(span.begin), at(span.end), span_layer_, -1);
  }
}

void Workers::run(std::int64_t blocks, BlockFunction function) {
  const FlushDenormals caller(!fault_point("workers.keep_denormals"));
  if (threads_ > 1 && blocks > 1) return run_in_parallel(blocks, function);
  for (std::int64_t block = 0; block < blocks; ++block) function(block, 0);
}

void Workers::set_trace(Trace& trace, const std::string& name) {
  spans_.resize(static_cast<std::size_t>(threads_));
  for (std::size_t i = 0; i < spans_.size(); ++i) spans_[i].track = trace.add_track(name + " " + std::to_string(i));
  trace_ = &trace;
}

void Workers::annotate(std::string_view name, int layer) {
  span_name_ = name;
  span_layer_ = layer;
}

int available_cores() {
  const int quota = cpu_quota("/proc/self/cgroup", "/sys/fs/cgroup");
  const int cores = std::max(1, static_cast<int>(CpuSet::of_thread().list().size()));
  return quota > 0 ? std::min(cores, quota) : cores;
}

void flush_denormals_to_zero() { FloatControl::write(FloatControl::read() | FloatControl::kFlush); }

}  // namespace l2l
