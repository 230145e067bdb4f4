// What the pieces of a step take on this machine: looked up in the calibration, or measured now and kept there. No data
// are read and nothing is trained: programs run on scratch memory of one layer, the parameter server on a store of its
// own.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/plan/step_work.h"
#include "runtime/tuning/calibration.h"

namespace l2l::runtime {

// Of one run of something that has the machine for itself.
struct Cost {
  double seconds = 0;
  double processor = 0;  // seconds of this process's threads, added up
};
inline Cost operator*(double count, const Cost& cost) { return {count * cost.seconds, count * cost.processor}; }
inline Cost operator+(const Cost& a, const Cost& b) { return {a.seconds + b.seconds, a.processor + b.processor}; }

// Whether launches take the time of this process's threads: those that run elsewhere take hardly any of it; those that
// compute here take at least a thread's, less what other processes take of the cores.
inline bool computes_here(const Cost& launches) { return launches.processor > 0.1 * launches.seconds; }

enum class Direction : std::uint8_t { to_device, to_host };
// How long something is measured that is not known. A piece: about 0.3 s, or 0.05 s where there is much of it.
enum class Effort : std::uint8_t { thorough, quick };
// `usual` seconds of it, times the environment's L2L_MEASURING_TIME where that is set (in (0, 1]; anything else counts
// as 1). Figures become noisier: for tests of what is done with them, and for trying things out.
double measuring_time(double usual);

// Thread-bound.
class StepCosts {
 public:
  // Measures what the calibration has not where `may_measure`, on the first device of `parts`, which must be idle. All
  // outlive it.
  StepCosts(const RunParts& parts, Calibration& calibration, bool may_measure);
  ~StepCosts();

  // Each returns no cost when the figure is missing and may not be measured; missing() then names it.
  Cost launch(const device::Executable& program, LayerIndex layer, Effort effort = Effort::thorough);
  Cost zero(Bytes bytes);
  Cost copy(Direction direction, Bytes bytes);
  // Check and update of a parameter, in groups of the size of this model's blocks.
  Cost parameter_update();
  // Of a step in which the device shares the cores, over the sum of its pieces; `measure` says so.
  double sharing(const RunPlan& plan, const std::function<double()>& measure);
  // Bytes per second of an update's streams, with the threads of the parameter server.
  std::optional<double> memory_bandwidth();

  // Of the figure in the calibration.
  std::string name_of_launch(const device::Executable& program) const;
  // A hash of all that the step of a plan with these parts consists of.
  std::string name_of_step(const RunPlan& plan) const;

  int measured() const { return measured_; }                            // figures, now
  int cached() const { return cached_; }                                // figures out of the calibration
  const std::vector<std::string>& missing() const { return missing_; }  // what they are of

 private:
  class Bench;

  std::string name_of_update(const ModelLayout& layout) const;
  template <typename Measure>
  Cost look_up(const std::string& name, const std::string& what, const Measure& measure);

  const RunParts& parts_;
  Calibration& calibration_;
  const bool may_measure_;
  std::map<std::string, Cost> found_;  // what this object has given, by name
  int measured_ = 0, cached_ = 0;
  std::vector<std::string> missing_;
  std::unique_ptr<Bench> bench_;
};

}  // namespace l2l::runtime
