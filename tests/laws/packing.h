// Documents packed into one sequence, and the same documents alone.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "runtime/plan_run.h"
#include "tests/laws/gradients.h"

namespace l2l::testing {

inline constexpr std::int64_t kPackedSequence = 40;

// A small model of the architecture whose sequence has `sequence` rows.
inline Options packing_options(const std::string& architecture, std::int64_t sequence, bool packed) {
  Options options;
  options.precision.compute = "fp32";
  ModelOptions& model = options.model;
  model = {.architecture = architecture, .layers = 2, .hidden = 24, .heads = 4, .vocabulary = 64};
  model.sequence = sequence;
  model.positions = kPackedSequence + (architecture == "roberta" ? 2 : 0);
  model.dropout = 0;
  const bool window = architecture == "mistral" || architecture == "gemma2" || architecture == "gemma3";
  if (window) model.sliding_window = 5;
  if (architecture == "gemma3") model.layer_types = {"sliding_attention", "full_attention"};
  if (architecture == "gemma2") model.attention_softcap = 3;
  options.data.format = "tokens";
  options.data.samples = packed ? "packed" : "stream";
  options.batch = {.micro_batch = 1, .micro_batches = 1};
  options.optimizer.weight_decay = 0;
  options.run.steps = 1;
  options.recompute.policy = "full";
  return options;
}

struct Document {
  std::vector<std::int32_t> tokens, targets;
};

// Of odd lengths: 7 + 13 + 1 + 11 rows, some of which predict nothing.
inline std::vector<Document> some_documents() {
  std::vector<Document> documents;
  std::int32_t state = 5;
  for (const std::size_t rows : {7, 13, 1, 11}) {
    Document& document = documents.emplace_back();
    for (std::size_t row = 0; row < rows; ++row) {
      state = (state * 29 + 17) % 61;
      document.tokens.push_back(state);
      document.targets.push_back(row % 4 == 3 ? -1 : (state + 9) % 61);
    }
  }
  return documents;
}

// What stands behind the documents: tokens that predict nothing.
inline void fill_packed(runtime::SequenceView sequence, const std::vector<Document>& documents, std::int32_t padding) {
  std::size_t row = 0;
  const auto describe = [&](std::size_t begin, std::size_t end) {
    sequence.positions[row] = static_cast<std::int32_t>(row - begin);
    sequence.begins[row] = static_cast<std::int32_t>(begin);
    sequence.ends[row] = static_cast<std::int32_t>(end);
    sequence.token_types[row] = 0;
    ++row;
  };
  for (const Document& document : documents) {
    const std::size_t begin = row, end = row + document.tokens.size();
    std::copy(document.tokens.begin(), document.tokens.end(),
              sequence.tokens.begin() + static_cast<std::ptrdiff_t>(row));
    std::copy(document.targets.begin(), document.targets.end(),
              sequence.targets.begin() + static_cast<std::ptrdiff_t>(row));
    while (row < end) describe(begin, end);
  }
  while (row < sequence.tokens.size()) {
    sequence.tokens[row] = padding;
    sequence.targets[row] = -1;
    describe(row, row + 1);
  }
}

// `change`: of the sequence, before the step.
template <typename Change>
Gradients gradients_packed(const Options& options, std::int32_t padding, Change change) {
  const runtime::RunPlan plan = runtime::plan_run(options);
  runtime::Engine engine(plan, nullptr);
  fill_packed(engine.minibatch().sequence(0), some_documents(), padding);
  change(engine.minibatch().sequence(0));
  return gradients_of(plan, engine);
}

inline Gradients gradients_packed(const Options& options, std::int32_t padding = 0) {
  return gradients_packed(options, padding, [](const runtime::SequenceView&) {});
}

// Each document in a step of its own, of a model that knows of no documents: the mean over all predicted tokens.
template <typename Prepare>
Gradients gradients_alone(const std::string& architecture, Prepare prepare) {
  Gradients sum;
  double all = 0;
  const auto predicted = [](const Document& document) {
    return static_cast<double>(std::count_if(document.targets.begin(), document.targets.end(),
                                             [](std::int32_t target) { return target >= 0; }));
  };
  const std::vector<Document> documents = some_documents();
  for (const Document& document : documents) all += predicted(document);
  for (const Document& document : documents) {
    Options options =
        packing_options(architecture, static_cast<std::int64_t>(document.tokens.size()), /*packed=*/false);
    prepare(options);
    const runtime::RunPlan plan = runtime::plan_run(options);
    runtime::Engine engine(plan, nullptr);
    const runtime::SequenceView sequence = engine.minibatch().sequence(0);
    std::copy(document.tokens.begin(), document.tokens.end(), sequence.tokens.begin());
    std::copy(document.targets.begin(), document.targets.end(), sequence.targets.begin());
    const auto share = static_cast<float>(predicted(document) / all);
    for (const auto& [name, values] : gradients_of(plan, engine)) {
      std::vector<float>& total = sum[name];
      total.resize(values.size());
      for (std::size_t i = 0; i < values.size(); ++i) total[i] += share * values[i];
    }
  }
  return sum;
}

}  // namespace l2l::testing
