#include "runtime/own_metrics.h"

#include "models/own_layers.h"

namespace l2l::runtime {

OwnMetrics::OwnMetrics(const ModelOptions& model)
    : metrics_(model.metrics), targets_(model.targets), numbers_(model.targets.size()) {
  for (const Metric& metric : metrics_) sums_.emplace_back(static_cast<std::size_t>(metric.sums));
}

void OwnMetrics::add(std::span<const float> output, std::span<const std::int32_t> targets) {
  std::vector<TargetValues> values;
  for (std::size_t i = 0; i < targets_.size(); ++i) {
    const std::span<const std::int32_t> words = targets.first(static_cast<std::size_t>(models::words_of(targets_[i])));
    targets = targets.subspan(words.size());
    if (targets_[i].element == TensorSpec::Element::i32) {
      values.push_back({{}, words});
      continue;
    }
    numbers_[i].resize(static_cast<std::size_t>(models::elements_of(targets_[i])));
    for (std::size_t j = 0; j < numbers_[i].size(); ++j) {
      numbers_[i][j] = element_of(models::word_element(targets_[i].element), words, j);
    }
    values.push_back({numbers_[i], {}});
  }
  for (std::size_t i = 0; i < metrics_.size(); ++i) metrics_[i].add(output, values, sums_[i]);
  ++samples_;
}

NamedMetrics OwnMetrics::values() const {
  NamedMetrics values;
  for (std::size_t i = 0; i < metrics_.size(); ++i) {
    const std::vector<double>& sums = sums_[i];
    values.emplace_back(metrics_[i].name, metrics_[i].value ? metrics_[i].value(sums, samples_)
                                                            : sums[0] / static_cast<double>(samples_));
  }
  return values;
}

}  // namespace l2l::runtime
