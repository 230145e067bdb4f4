// Padded samples of many lengths, and the gradients of one minibatch of them.
#pragma once

#include <cstdlib>
#include <fstream>
#include <functional>
#include <string>

#include "runtime/plan_run.h"
#include "runtime/read_ahead.h"
#include "tests/laws/gradients.h"
#include "tests/support/temporary_folder.h"

namespace l2l::testing {

// Texts, one of which is longer than a sequence and cut, and models that train on them.
class PaddedTexts {
 public:
  static constexpr std::int64_t kSequence = 40;

  PaddedTexts() {
    ::setenv("XDG_CACHE_HOME", (folder_ / "cache").c_str(), 1);
    std::ofstream file(folder_ / "texts.jsonl");
    for (const int length : {5, 38, 16, 9, 23, 60, 7, 12, 31, 3, 17, 8, 26, 11, 14, 6}) {
      file << R"({"text": ")";
      for (int i = 0; i < length; ++i) file << static_cast<char>('a' + (length * 7 + i * i * 3) % 26);
      file << "\", \"class\": " << length % 3 << "}\n";
    }
  }

  Options options(const std::string& architecture, std::int64_t buckets) const {
    Options options;
    options.precision.compute = "fp32";
    options.model = {.architecture = architecture, .layers = 3, .hidden = 24, .heads = 4, .vocabulary = 264};
    options.model.sequence = kSequence;
    options.model.dropout = 0;
    options.data.train = {(folder_ / "texts.jsonl").string()};
    options.data.samples = "padded";
    options.data.buckets = buckets;
    options.batch = {.micro_batch = 2, .micro_batches = 4};
    options.optimizer.weight_decay = 0;
    options.run.steps = 4;
    options.recompute.policy = "full";
    return options;
  }

  const TemporaryFolder& folder() const { return folder_; }

 private:
  TemporaryFolder folder_;
};

// Of the first minibatch. `change`: of it, before the step.
inline Gradients gradients_padded(
    const Options& options, const std::function<void(runtime::Minibatch&)>& change = [](runtime::Minibatch&) {}) {
  const runtime::RunPlan plan = runtime::plan_run(options);
  runtime::Engine engine(plan, nullptr);
  const auto samples = runtime::training_samples(plan.options, runtime::dataset_settings(plan.options));
  runtime::ReadAhead(plan.minibatch_shape(), 1).fill(engine.minibatch(), *samples, runtime::DrawnFor::training, 0);
  change(engine.minibatch());
  return gradients_of(plan, engine);
}

}  // namespace l2l::testing
