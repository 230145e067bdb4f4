#include "tools/bench/schedule_report.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "l2l/errors.h"
#include "runtime/tuning/median.h"

namespace l2l::tools {
namespace {

using Span = Trace::Span;

double milliseconds(const Span& span) { return 1e-6 * static_cast<double>(span.end_ns - span.begin_ns); }

bool before(const Span& a, const Span& b) { return a.begin_ns < b.begin_ns; }

class Reader {
 public:
  Reader(const Trace& trace, const models::Model& model, int first_step);
  ScheduleReport read();

 private:
  int top() const { return model_.layers() - 1; }  // the head, or its last chunk: visited once
  std::vector<Span> spans_of(std::string_view track) const;
  const LayerSpec& layer_at(LayerIndex layer) const { return model_.layout.layers[static_cast<std::size_t>(layer)]; }
  bool comes_once(LayerIndex layer) const;
  VisitTimes& at(LayerIndex layer, VisitKind kind);
  VisitKind kind_of_gradients(LayerIndex layer) const { return layer == top() ? VisitKind::turn : VisitKind::backward; }
  VisitKind kind_of(const Span& launch) const;
  void find_steps(int first_step);
  void read_compute();
  void read_weights();
  void read_stash();
  void read_gradients();
  void read_updates();

  const models::Model& model_;
  const std::vector<std::string> tracks_;
  std::vector<Span> spans_;
  std::int64_t begin_ = 0, end_ = 0;  // of the steps that are reported
  ScheduleReport report_;
};

Reader::Reader(const Trace& trace, const models::Model& model, int first_step)
    : model_(model), tracks_(trace.tracks()), spans_(trace.spans()) {
  if (trace.dropped() > 0) throw Error("schedule report: the trace was too small for the steps; measure fewer");
  std::stable_sort(spans_.begin(), spans_.end(), before);
  for (int layer = 0; layer < top(); ++layer) report_.visits.push_back({layer, VisitKind::forward, {}, {}});
  report_.visits.push_back({top(), VisitKind::turn, {}, {}});
  for (int layer = top() - 1; layer >= 0; --layer) report_.visits.push_back({layer, VisitKind::backward, {}, {}});
  for (VisitReport& visit : report_.visits) visit.name = layer_at(visit.layer).name;
  find_steps(first_step);
}

std::vector<Span> Reader::spans_of(std::string_view track) const {
  std::vector<Span> found;
  for (const Span& span : spans_) {
    const bool inside = span.begin_ns >= begin_ && span.begin_ns < end_;
    if (inside && tracks_[static_cast<std::size_t>(span.track)] == track) found.push_back(span);
  }
  return found;
}

VisitTimes& Reader::at(LayerIndex layer, VisitKind kind) {
  if (layer < 0 || layer > top()) throw Error("schedule report: a span of layer " + std::to_string(layer));
  if (layer == top()) kind = VisitKind::turn;
  const auto index = static_cast<std::size_t>(kind == VisitKind::backward ? 2 * top() - layer : layer);
  return report_.visits[index].times;
}

// From the end of the step before to the end of the last one: steady state.
void Reader::find_steps(int first_step) {
  end_ = std::numeric_limits<std::int64_t>::max();
  begin_ = std::numeric_limits<std::int64_t>::min();
  const std::vector<Span> steps = spans_of("steps");
  const auto first = static_cast<std::size_t>(first_step);
  if (first < 1 || steps.size() <= first) throw Error("schedule report: too few steps were traced");
  std::vector<double> durations;
  for (std::size_t i = first; i < steps.size(); ++i) {
    durations.push_back(1e-6 * static_cast<double>(steps[i].end_ns - steps[i - 1].end_ns));
  }
  begin_ = steps[first - 1].end_ns;
  end_ = steps.back().end_ns;
  report_.steps = static_cast<int>(durations.size());
  report_.step_ms = runtime::median(std::move(durations));
}

VisitKind Reader::kind_of(const Span& launch) const {
  return launch.name.ends_with(" backward") || launch.name == "drain" ? VisitKind::backward : VisitKind::forward;
}

// Fills, waits and idle time belong to the visit of the launch that follows them.
void Reader::read_compute() {
  VisitTimes pending;
  std::int64_t last = begin_;
  for (const Span& span : spans_of("compute")) {
    pending.idle += 1e-6 * static_cast<double>(std::max<std::int64_t>(0, span.begin_ns - last));
    last = std::max(last, span.end_ns);
    if (span.name == "wait weights") {
      pending.wait_weights += milliseconds(span);
    } else if (span.name == "wait stash") {
      pending.wait_stash += milliseconds(span);
    } else if (span.name == "wait gradients") {
      pending.wait_gradients += milliseconds(span);
    } else if (span.name.starts_with("wait") || span.name.starts_with("copy")) {
      pending.idle += milliseconds(span);  // tokens and losses, and whatever else orders streams
    } else if (span.name == "zero") {
      pending.compute += milliseconds(span);
    } else {
      VisitTimes& visit = at(span.layer, kind_of(span));
      visit.compute += pending.compute + milliseconds(span);
      visit.wait_weights += pending.wait_weights;
      visit.wait_stash += pending.wait_stash;
      visit.wait_gradients += pending.wait_gradients;
      visit.idle += pending.idle;
      pending = {};
    }
  }
}

// The embedding's backward needs no wire; the top layer stays, and so does the last block below an undivided head.
bool Reader::comes_once(LayerIndex layer) const {
  return layer <= model_.block(0) || layer == top() || (model_.chunks.count == 0 && layer == top() - 1);
}

// Other wires come twice a step, first for the forward pass.
void Reader::read_weights() {
  std::map<int, std::size_t> copies;  // by layer
  for (const Span& span : spans_of("h2d weights")) {
    if (!span.name.starts_with("copy")) continue;
    const bool once = comes_once(span.layer);
    const std::size_t parts = once ? 1 : layer_at(span.layer).parts.size();
    const bool first = once || copies[span.layer]++ / parts % 2 == 0;
    at(span.layer, first ? VisitKind::forward : VisitKind::backward).h2d += milliseconds(span);
  }
}

// Layer inputs leave from the visit of the layer below, which made them, saved values from the layer's own.
void Reader::read_stash() {
  for (const auto& [out, visits_below] : {std::pair{"d2h stash", 1}, std::pair{"d2h saved", 0}}) {
    for (const Span& span : spans_of(out)) {
      if (span.name.starts_with("copy")) at(span.layer - visits_below, VisitKind::forward).d2h += milliseconds(span);
    }
  }
  for (const char* const back : {"h2d stash", "h2d saved"}) {
    for (const Span& span : spans_of(back)) {
      if (span.name.starts_with("copy")) at(span.layer, VisitKind::backward).h2d += milliseconds(span);
    }
  }
}

void Reader::read_gradients() {
  for (const Span& span : spans_of("d2h gradients")) {
    if (span.name.starts_with("copy")) at(span.layer, kind_of_gradients(span.layer)).d2h += milliseconds(span);
  }
}

void Reader::read_updates() {
  for (const Span& span : spans_of("eps updater")) {
    VisitTimes& visit = at(span.layer, kind_of_gradients(span.layer));
    (span.name == "check" ? visit.check : visit.update) += milliseconds(span);
  }
}

ScheduleReport Reader::read() {
  read_compute();
  read_weights();
  read_stash();
  read_gradients();
  read_updates();
  const double steps = report_.steps;
  for (VisitReport& visit : report_.visits) {
    VisitTimes& t = visit.times;
    for (double* ms : {&t.compute, &t.h2d, &t.d2h, &t.check, &t.update, &t.wait_weights, &t.wait_stash,
                       &t.wait_gradients, &t.idle}) {
      *ms /= steps;
    }
  }
  return report_;
}

}  // namespace

ScheduleReport make_schedule_report(const Trace& trace, const models::Model& model, int first_step) {
  return Reader(trace, model, first_step).read();
}

VisitTimes ScheduleReport::sum() const {
  VisitTimes total;
  for (const VisitReport& visit : visits) {
    const VisitTimes& t = visit.times;
    total.compute += t.compute;
    total.h2d += t.h2d;
    total.d2h += t.d2h;
    total.check += t.check;
    total.update += t.update;
    total.wait_weights += t.wait_weights;
    total.wait_stash += t.wait_stash;
    total.wait_gradients += t.wait_gradients;
    total.idle += t.idle;
  }
  return total;
}

double ScheduleReport::last_update_ms() const {
  const VisitTimes& last = visits.back().times;
  return last.d2h + last.check + last.update;
}

double ScheduleReport::bound_ms() const {
  double bound = first_fill_ms() + last_update_ms();
  for (std::size_t i = 0; i < visits.size(); ++i) {
    const VisitTimes& t = visits[i].times;
    const double h2d = i == 0 ? 0 : t.h2d, d2h = i + 1 == visits.size() ? 0 : t.d2h;
    bound += std::max({t.compute, h2d, d2h});
  }
  return bound;
}

}  // namespace l2l::tools
