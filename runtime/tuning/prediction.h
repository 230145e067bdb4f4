// The time of a step before it runs: the pieces of work of step_work.h, each at its cost on this machine
// (step_costs.h).
#pragma once

#include <array>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "collectives/collectives.h"
#include "l2l/trainer.h"
#include "runtime/tuning/step_costs.h"

namespace l2l::runtime {

// A visit's work with its costs.
struct VisitCost {
  Cost compute, h2d, d2h;
  Cost gather = {};    // of the wire from the other devices, when h2d has brought this one's slice
  Cost exchange = {};  // of its gradients with the other devices, and their sum, before d2h brings that
  Cost update;         // of the groups that its gradients complete
  // What a node exchanges of these groups with the others, before the update and after it.
  collectives::Traffic gradients, weights;
  collectives::Traffic wires;  // before the visit: of the layer's weights, where they are sharded

  bool updates() const { return update.seconds > 0 || gradients.either() + weights.either() > 0; }
  collectives::Traffic exchanged() const { return gradients + weights + wires; }
};

struct Resource {
  Cost VisitCost::*cost;
  const char* name;
};
// Of one node; the network is apart, since what it takes depends on its bandwidth.
inline constexpr Resource kPeerLinks = {&VisitCost::gather, "gathers of weights"};       // of several that gather
inline constexpr Resource kExchanges = {&VisitCost::exchange, "exchange of gradients"};  // of several that sum
inline constexpr std::array kResources = {
    Resource{&VisitCost::compute, "device compute"}, Resource{&VisitCost::h2d, "link to the device"},
    Resource{&VisitCost::d2h, "link to the host"}, Resource{&VisitCost::update, "parameter server"}};

// The costs of visits, in the order of step_work(), and how they add up to a step in the steady state.
struct StepModel {
  std::vector<VisitCost> visits;  // an odd number: forward, the turn, backward
  int slots = 2;                  // of weights: how far h2d runs ahead of compute
  bool held = false;              // updates wait for the end of the pass
  // Visits whose gradients may be on the host, on their way there or to their update; or, where a node sums its
  // devices' gradients, until the sums have left.
  int gradient_buffers = std::numeric_limits<int>::max();
  bool sums = false;
  int wire_slots = 1;  // gathered weights that are on the host at once
  double network = 0;  // bytes per second between nodes, each way; 0: exchanges take no time
  int cores = 1;       // of this process
  double sharing = 1;  // where the device shares the cores: what a step takes over the sum of its pieces

  // Work of all visits.
  VisitCost sum() const;
  // Compute, h2d, d2h, gathers, the parameter server and the network each do one thing at a time, as soon as what it
  // needs is there: the period in which such steps follow each other.
  double pipelined() const;
  // That the network is busy, in the direction that is for longer.
  double network_seconds() const;
  // The device computes on these cores, beside copies and updates.
  bool shares() const;
  // Where they share the cores: the longer of compute, and all work spread over the cores, since copies and updates
  // fill what compute leaves idle.
  double shared() const;
  // Where they share the cores, the network adds what it adds to the pipeline.
  double step_seconds() const { return step_seconds(shares()); }
  // The same where it is known whether they do: a model from which compute was taken out does not tell.
  double step_seconds(bool sharing_cores) const;
  // The resource that is busy for longest.
  std::string bound() const;
};

inline constexpr const char* kNetwork = "network";

// The least bandwidth, in bytes per second, at which the network makes a step at most `share` longer; nothing where
// nodes exchange nothing.
std::optional<double> hiding_bandwidth(StepModel model, double share);

// Measures or estimates in `session` what is not known; the plan's device must then be idle. Null: only looks up.
// Predictions for runs that differ only in what their blocks do, all measured thoroughly, can be compared although they
// were made hours apart.
StepPrediction predict_step(const RunPlan& plan, Calibration& calibration, MeasuringSession* session);

// The prediction, thoroughly measured, beside what the step does take. What is not known of the shallower model is
// measured while the model trains in turn with it, so that both find the machine equally fast. Fills in measured_ms,
// but not of several nodes, whose steps cannot be made here.
StepPrediction check_prediction(const RunPlan& plan, Calibration& calibration, MeasuringSession& session);

}  // namespace l2l::runtime
