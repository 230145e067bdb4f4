// Short runs of custom models.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "tests/laws/custom_models.h"
#include "tests/laws/small_run.h"

namespace l2l::testing {

inline Options custom_options(ModelOptions model) {
  Options options;
  options.precision.compute = "fp32";
  options.data.train_source = options.data.validation_source = drawn_samples();
  options.model = std::move(model);
  options.device.kind = test_device();
  options.device.threads = 2;
  options.batch = {.micro_batch = 3, .micro_batches = 2};
  options.optimizer.learning_rate = 3e-3;
  options.recompute.policy = "full";
  options.run.steps = 20;
  return options;
}

inline Record custom_record(const Options& options, int steps = 4) { return record_of(options, steps); }

// A run that is saved after two steps and goes on for three more ends as one of five does.
inline void expect_resumed(const Options& options, const std::string& where) {
  Trainer whole(options);
  const Record expected = record_of(whole, 5);
  {
    Trainer first(options);
    record_of(first, 2);
    first.save();
  }
  Trainer second(options);
  second.resume(options.checkpoint.directory);
  record_of(second, 3);
  EXPECT_EQ(second.weights_hash(), expected.hash) << where;
}

}  // namespace l2l::testing
