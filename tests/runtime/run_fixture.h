// Small runs by Trainer::run(), and an observer that keeps what they tell.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "tests/laws/small_run.h"

namespace l2l::run {

// What a run told, by step.
class Told : public RunObserver {
 public:
  void begin(std::int64_t completed, std::int64_t steps) override {
    order += "begin " + std::to_string(completed) + " of " + std::to_string(steps);
  }
  void step(const StepReport& report) override {
    order += ", step " + std::to_string(report.step);
    ++steps;
    if (each) each(report);
  }
  void saving(std::int64_t step, SaveReason reason) override { saves.emplace_back(step, reason); }
  void saved(const std::filesystem::path& checkpoint) override {
    EXPECT_TRUE(std::filesystem::exists(checkpoint / "manifest.json"));
    folders.insert(checkpoint);
  }
  void validating(std::int64_t step) override {
    if (before_validation) before_validation(step);
  }
  void validated(std::int64_t step, const Evaluation& evaluation) override {
    EXPECT_GT(evaluation.tokens, 0);
    validations.push_back(step);
  }
  void kept_best(const std::filesystem::path& checkpoint) override { best = checkpoint; }
  void ending(RunEnd) override { order += ", ending"; }

  std::function<void(const StepReport&)> each;
  std::function<void(std::int64_t)> before_validation;
  std::string order;
  int steps = 0;
  std::vector<std::pair<std::int64_t, SaveReason>> saves;
  std::vector<std::int64_t> validations;
  std::set<std::filesystem::path> folders;
  std::filesystem::path best;
};

class Run : public ::testing::Test {
 protected:
  Options small() const {
    Options options = run_.options();
    options.device.threads = options.eps.threads = 1;
    options.checkpoint.minutes = 0;
    options.run.steps = 6;
    return options;
  }
  RunResult run(const Options& options, Told& told) const { return Trainer(options).run(told); }
  // Of the run's end, saving nothing; goes on from `resumed` where there is a checkpoint.
  std::uint64_t hash_of(Options options, const std::filesystem::path& resumed = {}) const {
    options.checkpoint.every = 0;
    options.checkpoint.directory.clear();
    Trainer trainer(options);
    if (!resumed.empty()) trainer.resume(resumed);
    trainer.run();
    return trainer.weights_hash();
  }

  testing::SmallRun run_;
};

}  // namespace l2l::run
