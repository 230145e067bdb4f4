// What a step's time went to, visit by visit: read from the spans of a trace, so that report and timeline agree.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/trace.h"
#include "models/model.h"

namespace l2l::tools {

// Of a layer's visit to the device. The head's is both, where the forward pass turns into the backward pass.
enum class VisitKind : std::uint8_t { forward, turn, backward };

// Milliseconds per step. Work on the link and in the parameter server runs beside compute; what compute stood still for
// is its idle time before and during the visit.
struct VisitTimes {
  double compute = 0;         // launches and fills
  double h2d = 0;             // weights and stash, brought for this visit
  double d2h = 0;             // stash and gradients, made by this visit
  double check = 0;           // by the parameter server: the gradients of this visit
  double update = 0;          // the same: of the groups that they complete
  double wait_weights = 0;    // compute waited for the wire
  double wait_stash = 0;      // for a layer input to come, or for room to leave one
  double wait_gradients = 0;  // for room for gradients to leave
  double idle = 0;            // nothing was enqueued
};

struct VisitReport {
  LayerIndex layer = 0;
  VisitKind kind = VisitKind::forward;
  std::string name;  // of the layer
  VisitTimes times;
};

// A relay's steps (or resident execution's: a visit then stands for all visits of the layer in one direction).
struct ScheduleReport {
  int steps = 0;                    // that it is the mean of
  double step_ms = 0;               // median, from the end of a step to the end of the next
  std::vector<VisitReport> visits;  // forward from the embedding, head, backward to the embedding

  VisitTimes sum() const;
  // The first wire, which nothing hides.
  double first_fill_ms() const { return visits.front().times.h2d; }
  // The last gradients and their update, which nothing of this step hides.
  double last_update_ms() const;
  // What perfect overlap would take: the sum over visits of the longest of compute, h2d and d2h, plus first fill and
  // last update, each of which is counted once.
  double bound_ms() const;

  std::string table() const;  // for people
  std::string json() const;   // one object
};

// The report on the steps from `first_step` (from 0) on, at least one before it and one from it on. Throws Error when
// the trace does not hold them whole.
ScheduleReport make_schedule_report(const Trace& trace, const models::Model& model, int first_step);

}  // namespace l2l::tools
