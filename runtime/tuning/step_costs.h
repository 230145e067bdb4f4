// What the pieces of a step take on this machine: looked up in the calibration, or measured now and kept there, or
// estimated. No data are read and nothing is trained: programs run on scratch memory of one layer, the parameter server
// on a store of its own.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "device/peers.h"
#include "runtime/plan/step_work.h"
#include "runtime/tuning/calibration.h"
#include "runtime/tuning/measuring.h"

namespace l2l::runtime {

// Whether launches take the time of this process's threads: those that run elsewhere take hardly any of it; those that
// compute here take at least a thread's, less what other processes take of the cores.
inline bool computes_here(const Cost& launches) { return launches.processor > 0.1 * launches.seconds; }

// The store of a run of this rank alone: what is measured needs no others.
inline eps::StoreOptions of_one_rank(eps::StoreOptions store) {
  store.rank = {};
  return store;
}

enum class Direction : std::uint8_t { to_device, to_host };
// How long something is measured that is not known. A piece: about 0.3 s, or 0.05 s where there is much of it; brief:
// 0.01 s, or, where that is longer, once.
enum class Effort : std::uint8_t { thorough, quick, brief };
constexpr double kLongRun = 0.1;  // seconds of a run that is not repeated when the effort is brief

// Thread-bound.
class StepCosts {
 public:
  // Measures or estimates in `session` what the calibration has not, on the first device of `parts`, which must be
  // idle; null: only looks up. All outlive it. A thorough session takes only what was measured thoroughly; any other
  // takes the best that there is, so that the same calibration gives the same costs.
  StepCosts(const RunParts& parts, Calibration& calibration, MeasuringSession* session);
  ~StepCosts();

  // Each returns no cost when the figure is missing and there is no session; missing() then names it.
  Cost launch(const device::Executable& program, LayerIndex layer, Effort effort = Effort::thorough);
  // The same of a graph, which is compiled only where it is measured.
  Cost launch(const compiler::Graph& graph, LayerIndex layer, Effort effort);
  Cost zero(Bytes bytes);
  Cost copy(Direction direction, Bytes bytes);
  // Of so many bytes that each device receives from its peers, all at once: of weights, and of gradients.
  Cost gather(Bytes received) { return of_peers(device::PeerCall::all_gather, received); }
  Cost exchange(Bytes received) { return of_peers(device::PeerCall::all_to_all, received); }
  // Check and update of a parameter by one rank that has all of it, in groups of the size of this model's blocks.
  Cost parameter_update();
  // Of a step in which the device shares the cores, over the sum of its pieces; `measure` says so, in about `seconds`.
  // Estimated: 1.
  double sharing(const RunPlan& plan, double seconds, const std::function<double()>& measure);
  // Bytes per second of an update's streams, with the threads of the parameter server; measured thoroughly or not at
  // all.
  std::optional<double> memory_bandwidth();

  // Of the figure in the calibration.
  std::string name_of_launch(const compiler::Graph& graph) const;
  // A hash of all that the step of a plan with these parts consists of.
  std::string name_of_step(const RunPlan& plan) const;

  int measured() const { return measured_; }                            // figures, now
  int cached() const { return cached_; }                                // figures that were measured earlier
  int estimated() const { return estimated_; }                          // figures, now or earlier
  const std::vector<std::string>& missing() const { return missing_; }  // what figures that are missing are of

  // Tells the session how much it is going to measure: what `look_ups` ask of the object that they are given, which has
  // no costs but those that are known.
  void announce(const std::function<void(StepCosts&)>& look_ups) const;

 private:
  Cost of_peers(device::PeerCall call, Bytes received);
  class Bench;

  // A figure that may be missing.
  struct Figure {
    std::string name;  // in the calibration
    std::string what;  // for people
    PieceWork work;
    Effort effort = Effort::thorough;
    double seconds = 0;                 // that measuring it takes; 0: follows from the work
    std::optional<Cost> estimate = {};  // where it does not follow from the work
  };
  using Measure = std::function<Cost(Bench&, Effort)>;

  Figure figure_of(const compiler::Graph& graph, Effort effort) const;
  std::string name_of_update(const ModelLayout& layout) const;
  Cost look_up(const Figure& figure, const Measure& measure);
  std::optional<std::pair<Grade, Cost>> stored(const Figure& figure) const;
  Cost measured(const Figure& figure, const Measure& measure);
  Cost estimated(const Figure& figure);
  void keep(const Figure& figure, Grade grade, const Cost& cost);
  Cost valid(const Figure& figure, Cost cost) const;
  Effort effort_for(const Figure& figure) const { return session_->thorough() ? figure.effort : Effort::brief; }
  double seconds_of(const Figure& figure, Effort effort) const;
  PieceRates& rates() { return session_ != nullptr ? session_->rates() : own_rates_; }

  const RunParts& parts_;
  Calibration& calibration_;
  MeasuringSession* const session_;
  PieceRates own_rates_;
  std::unordered_map<std::string, Cost> found_;  // what this object has given, by name
  bool announces_ = false;
  int measured_ = 0, cached_ = 0, estimated_ = 0;
  std::vector<std::string> missing_;
  std::unique_ptr<Bench> bench_;
};

}  // namespace l2l::runtime
