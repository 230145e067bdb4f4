// How well a head does its task, from its logits at labelled rows.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "models/shape.h"
#include "runtime/data/data_files.h"

namespace l2l::runtime {

using NamedMetrics = std::vector<std::pair<std::string, double>>;

// Of classes 0 to classes - 1. "f1" is that of class 1 where there are two, else the mean over the classes that occur
// in either list (macro). An undefined ratio is 0. Sources: Matthews, 1975; Gorodkin, 2004, for more than two classes.
double accuracy(std::span<const std::int32_t> predicted, std::span<const std::int32_t> labels);
double f1(std::span<const std::int32_t> predicted, std::span<const std::int32_t> labels, std::int64_t classes);
double matthews(std::span<const std::int32_t> predicted, std::span<const std::int32_t> labels, std::int64_t classes);
// NaN where one list is constant or has a NaN. Spearman: equal values share the mean of their ranks.
double pearson(std::span<const float> a, std::span<const float> b);
double spearman(std::span<const float> a, std::span<const float> b);

// Of sequences of tags, one behind the other; `begins` holds where each sequence begins.
struct TagSequences {
  std::vector<std::size_t> begins;
  std::vector<std::int32_t> predicted, labels;
};
// Micro average over entities: the same type, first and last tag. `names`: are_entity_tags(); an I-TYPE or E-TYPE
// behind another type begins an entity, as in the evaluation of CoNLL-2000.
double entity_f1(const TagSequences& tags, std::span<const std::string> names);

// Collects what a validation pass gives. Thread-bound.
class TaskMetrics {
 public:
  // `names`: of tags; may be empty.
  TaskMetrics(models::HeadKind head, std::int64_t labels, std::vector<std::string> names);

  // A labelled row. `logits`: as many as the head gives; `target`: as in compiler::Region::targets. Rows of a document
  // come in their order; `begins`: the row is the first of its document that is labelled.
  void add(std::span<const float> logits, std::int32_t target, bool begins);
  // Name and value of each metric of the task; without rows none.
  NamedMetrics metrics() const;

  // Host memory for `rows` labelled rows, at most.
  static std::uint64_t bytes(std::uint64_t rows) { return rows * (2 * sizeof(std::int32_t) + sizeof(std::size_t)); }

 private:
  const models::HeadKind head_;
  const std::int64_t labels_;
  const std::vector<std::string> names_;
  TagSequences classes_;
  std::vector<float> scores_, numbers_;  // of regression
  std::vector<float> choices_;           // scores of the question that is not complete
  std::int32_t question_ = kNoLabel;     // its target
};

}  // namespace l2l::runtime
