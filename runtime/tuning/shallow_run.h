// Steps of a model with fewer blocks than the one that is planned: what pieces of a step cost each other on cores and
// in caches that they share shows only when they run beside each other.
#pragma once

#include "runtime/plan/run_plan.h"
#include "runtime/tuning/step_choice.h"
#include "runtime/tuning/step_costs.h"

namespace l2l::runtime {

// Half the blocks, and of large ones fewer (about `state` bytes of state), on a host device, without files, and without
// limits of memory but the machine's; alike in all else. A custom model keeps all its blocks, as do models whose layers
// are exchanged, or differ in what they pass on or in what is trained of them.
Options shallower(const RunParts& parts, Bytes state = Bytes{1} << 30);
// The plan of `options`, those of shallower(), in which blocks do what those at about their place in the whole model
// do. `devices`: none to open those of the options.
RunPlan shallower_plan(const RunParts& parts, const Options& options, const Decisions& decisions, Devices devices = {});
// The plan of `options` with blocks that keep their inputs alone, on the host, unless they rebuild these. `peers`: the
// devices as groups, where they are in some.
RunPlan plain_plan(Options options, Devices devices = {}, PeerGroups peers = {});
// The groups that these devices are in: of those of `parts` theirs, of none, which are still to be opened, none.
PeerGroups peers_of(const RunParts& parts, const Devices& devices);

// Seconds of a step, the median over some seconds, or, when the effort is brief, of a few steps: allocates the plan
// whole, draws tokens, trains it, and frees all. Its devices must be idle. Throws OutOfMemory when it does not fit.
double measure_step(const RunPlan& plan, Effort effort = Effort::quick);

struct StepPair {
  double seconds;   // of a step of the first
  StepRatio ratio;  // over the second
};
// How long the following takes where steps are long, for progress.
constexpr double kPairSeconds = 20, kThoroughPairSeconds = 60;
// The same of two plans that train in turn, some steps each, since a machine is not always equally fast. Quick: some
// seconds. Thorough: three times as long, for plans that are close.
StepPair measure_pair(const RunPlan& first, const RunPlan& second, Effort effort = Effort::quick);

}  // namespace l2l::runtime
