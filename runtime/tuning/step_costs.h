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

// Launches that are reckoned or run elsewhere take hardly any of our threads' time; those that compute here take at
// least that of a thread, less what other processes take of the cores.
inline bool computes_here(const Cost& launches) { return launches.processor > 0.1 * launches.seconds; }

enum class Direction : std::uint8_t { to_device, to_host };
// How long something is measured that is not known. A piece: about 0.3 s, or 0.05 s where there is much of it.
enum class Effort : std::uint8_t { thorough, quick };

// Thread-bound.
class StepCosts {
 public:
  // Measures what the calibration has not where `may_measure`, on the plan's device, which must be idle.
  StepCosts(const RunPlan& plan, Calibration& calibration, bool may_measure);
  ~StepCosts();

  // Each returns nothing when the figure is missing and may not be measured.
  std::optional<Cost> launch(const device::Executable& program, LayerIndex layer, Effort effort = Effort::thorough);
  // Of the figure in the calibration.
  std::string name_of_launch(const device::Executable& program) const;
  std::optional<Cost> zero(Bytes bytes);
  std::optional<Cost> copy(Direction direction, Bytes bytes);
  // Check and update of a parameter, in groups of the size of this model's blocks.
  std::optional<Cost> parameter_update();
  // Bytes per second of an update's streams, with the threads of the parameter server.
  std::optional<double> memory_bandwidth();

  // Stands for all that the plan's step consists of.
  std::string name_of_step() const;
  // Of a step in which the device shares the cores, over the sum of its pieces; `measure` says so.
  std::optional<double> sharing(const std::function<double()>& measure);

  int measured() const { return measured_; }                            // figures, now
  int cached() const { return cached_; }                                // figures out of the calibration
  const std::vector<std::string>& missing() const { return missing_; }  // what they are of

 private:
  class Bench;

  std::string name_of_update(const ModelLayout& layout) const;
  template <typename Measure>
  std::optional<Cost> look_up(const std::string& name, const std::string& what, const Measure& measure);

  const RunPlan& plan_;
  Calibration& calibration_;
  const bool may_measure_;
  std::map<std::string, Cost> found_;  // what this object has given, by name
  int measured_ = 0, cached_ = 0;
  std::vector<std::string> missing_;
  std::unique_ptr<Bench> bench_;
};

}  // namespace l2l::runtime
