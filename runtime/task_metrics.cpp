#include "runtime/task_metrics.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <string_view>

#include "core/choice_target.h"
#include "runtime/data/entity_tags.h"

namespace l2l::runtime {
namespace {

using models::HeadKind;

double ratio(double part, double whole) { return whole > 0 ? part / whole : 0; }

// How often each class was predicted, occurs, and was predicted rightly.
struct Counts {
  Counts(std::span<const std::int32_t> predicted, std::span<const std::int32_t> labels, std::int64_t classes)
      : predicted(static_cast<std::size_t>(classes)), labelled(this->predicted), right(this->predicted) {
    for (std::size_t i = 0; i < labels.size(); ++i) {
      ++this->predicted[static_cast<std::size_t>(predicted[i])];
      ++labelled[static_cast<std::size_t>(labels[i])];
      if (predicted[i] == labels[i]) ++right[static_cast<std::size_t>(labels[i])];
    }
  }
  double f1(std::size_t of) const { return ratio(2 * right[of], predicted[of] + labelled[of]); }

  std::vector<double> predicted, labelled, right;
};

// From 1 on; equal values share the mean of theirs. None is NaN.
std::vector<double> ranks_of(std::span<const float> values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return values[a] < values[b]; });
  std::vector<double> ranks(values.size());
  for (std::size_t begin = 0, end = 0; begin < order.size(); begin = end) {
    while (end < order.size() && values[order[end]] == values[order[begin]]) ++end;
    for (std::size_t i = begin; i < end; ++i) ranks[order[i]] = 0.5 * static_cast<double>(begin + end + 1);
  }
  return ranks;
}

double correlation(std::span<const double> a, std::span<const double> b) {
  const auto count = static_cast<double>(a.size());
  const double mean_a = std::accumulate(a.begin(), a.end(), 0.0) / count;
  const double mean_b = std::accumulate(b.begin(), b.end(), 0.0) / count;
  double both = 0, square_a = 0, square_b = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    both += (a[i] - mean_a) * (b[i] - mean_b);
    square_a += (a[i] - mean_a) * (a[i] - mean_a);
    square_b += (b[i] - mean_b) * (b[i] - mean_b);
  }
  if (square_a == 0 || square_b == 0) return std::numeric_limits<double>::quiet_NaN();
  return both / std::sqrt(square_a) / std::sqrt(square_b);
}

bool has_nan(std::span<const float> values) {
  return std::any_of(values.begin(), values.end(), [](float value) { return std::isnan(value); });
}

struct Entity {
  std::size_t begin, end;
  std::string_view type;
  bool operator==(const Entity&) const = default;
};

// Of one sequence, in their order, as seqeval finds them by default; `names`: are_entity_tags().
std::vector<Entity> entities_of(std::span<const std::int32_t> tags, std::span<const std::string> names) {
  std::vector<Entity> entities;
  bool open = false;
  for (std::size_t i = 0; i < tags.size(); ++i) {
    const std::string_view name = names[static_cast<std::size_t>(tags[i])];
    const bool outside = name == "O";
    const std::string_view type = outside ? std::string_view() : name.substr(2);
    const bool begins = name[0] == 'B' || name[0] == 'S', ends = name[0] == 'E' || name[0] == 'S';
    const bool goes_on = open && !outside && !begins && entities.back().type == type;
    if (goes_on) {
      entities.back().end = i + 1;
    } else if (!outside) {
      entities.push_back({i, i + 1, type});
    }
    open = !outside && !ends;
  }
  return entities;
}

}  // namespace

double accuracy(std::span<const std::int32_t> predicted, std::span<const std::int32_t> labels) {
  double right = 0;
  for (std::size_t i = 0; i < labels.size(); ++i) right += predicted[i] == labels[i] ? 1 : 0;
  return ratio(right, static_cast<double>(labels.size()));
}

double f1(std::span<const std::int32_t> predicted, std::span<const std::int32_t> labels, std::int64_t classes) {
  const Counts counts(predicted, labels, classes);
  if (classes == 2) return counts.f1(1);
  double sum = 0, seen = 0;
  for (std::size_t i = 0; i < counts.right.size(); ++i) {
    sum += counts.f1(i);
    seen += counts.predicted[i] + counts.labelled[i] > 0 ? 1 : 0;
  }
  return ratio(sum, seen);
}

double matthews(std::span<const std::int32_t> predicted, std::span<const std::int32_t> labels, std::int64_t classes) {
  const Counts counts(predicted, labels, classes);
  const auto all = static_cast<double>(labels.size());
  double right = 0, both = 0, square_predicted = 0, square_labelled = 0;
  for (std::size_t i = 0; i < counts.right.size(); ++i) {
    right += counts.right[i];
    both += counts.predicted[i] * counts.labelled[i];
    square_predicted += counts.predicted[i] * counts.predicted[i];
    square_labelled += counts.labelled[i] * counts.labelled[i];
  }
  const double spread = (all * all - square_predicted) * (all * all - square_labelled);
  return spread > 0 ? (right * all - both) / std::sqrt(spread) : 0;
}

double pearson(std::span<const float> a, std::span<const float> b) {
  return correlation(std::vector<double>(a.begin(), a.end()), std::vector<double>(b.begin(), b.end()));
}

double spearman(std::span<const float> a, std::span<const float> b) {
  if (has_nan(a) || has_nan(b)) return std::numeric_limits<double>::quiet_NaN();  // NaN has no rank
  return correlation(ranks_of(a), ranks_of(b));
}

double entity_f1(const TagSequences& tags, std::span<const std::string> names) {
  double right = 0, predicted = 0, labelled = 0;
  for (std::size_t i = 0; i < tags.begins.size(); ++i) {
    const std::size_t begin = tags.begins[i],
                      end = i + 1 < tags.begins.size() ? tags.begins[i + 1] : tags.labels.size();
    const std::vector<Entity> found = entities_of(std::span(tags.predicted).subspan(begin, end - begin), names),
                              wanted = entities_of(std::span(tags.labels).subspan(begin, end - begin), names);
    predicted += static_cast<double>(found.size());
    labelled += static_cast<double>(wanted.size());
    for (const Entity& entity : found) right += std::count(wanted.begin(), wanted.end(), entity) > 0 ? 1 : 0;
  }
  return ratio(2 * right, predicted + labelled);
}

TaskMetrics::TaskMetrics(HeadKind head, std::int64_t labels, std::vector<std::string> names)
    : head_(head), labels_(labels), names_(std::move(names)) {}

void TaskMetrics::add(std::span<const float> logits, std::int32_t target, bool begins) {
  if (head_ == HeadKind::regression) {
    scores_.push_back(logits[0]);
    numbers_.push_back(std::bit_cast<float>(target));
    return;
  }
  if (head_ == HeadKind::choice) {
    if (target >= 0) question_ = target;
    choices_.push_back(logits[0]);
    if (static_cast<std::int32_t>(choices_.size()) < choices_of(question_)) return;
    const auto chosen = std::max_element(choices_.begin(), choices_.end()) - choices_.begin();
    classes_.predicted.push_back(static_cast<std::int32_t>(chosen));
    classes_.labels.push_back(right_choice(question_));
    choices_.clear();
    return;
  }
  if (begins) classes_.begins.push_back(classes_.labels.size());
  classes_.predicted.push_back(
      static_cast<std::int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin()));
  classes_.labels.push_back(target);
}

NamedMetrics TaskMetrics::metrics() const {
  if (head_ == HeadKind::regression) {
    if (numbers_.empty()) return {};
    return {{"pearson", pearson(scores_, numbers_)}, {"spearman", spearman(scores_, numbers_)}};
  }
  if (classes_.labels.empty()) return {};
  NamedMetrics metrics = {{"accuracy", accuracy(classes_.predicted, classes_.labels)}};
  if (head_ == HeadKind::classification) {
    metrics.emplace_back("f1", f1(classes_.predicted, classes_.labels, labels_));
    metrics.emplace_back("matthews", matthews(classes_.predicted, classes_.labels, labels_));
  } else if (head_ == HeadKind::tokens && are_entity_tags(names_)) {
    metrics.emplace_back("f1", entity_f1(classes_, names_));
  }
  return metrics;
}

}  // namespace l2l::runtime
