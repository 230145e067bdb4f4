// The metrics of a custom model's validation (Metric in include/l2l/graph.h).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "l2l/options.h"
#include "runtime/task_metrics.h"

namespace l2l::runtime {

// Collects what a validation pass gives. Thread-bound.
class OwnMetrics {
 public:
  explicit OwnMetrics(const ModelOptions& model);

  bool empty() const { return metrics_.empty(); }
  // `targets`: of one sample, one tensor after the other, of whole words.
  void add(std::span<const float> output, std::span<const std::int32_t> targets);
  NamedMetrics values() const;

 private:
  const std::vector<Metric> metrics_;
  const std::vector<TensorSpec> targets_;
  std::vector<std::vector<double>> sums_;    // of each metric
  std::vector<std::vector<float>> numbers_;  // of each target of the sample
  std::uint64_t samples_ = 0;
};

}  // namespace l2l::runtime
