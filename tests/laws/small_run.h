// A model small enough to train a hundred times in a test, and what a run of it leaves behind.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "l2l/l2l.h"
#include "runtime/data/dataset.h"
#include "runtime/engine.h"
#include "runtime/plan/fixed_decisions.h"
#include "runtime/plan_run.h"
#include "tests/support/fault_device.h"
#include "tests/support/temporary_folder.h"

namespace l2l::testing {

// The device on which Trainer's tests of the laws run: "host", or what L2L_TEST_DEVICE says ("cuda":
// tools/gpu_check.sh).
inline std::string test_device() {
  const char* const device = std::getenv("L2L_TEST_DEVICE");
  return device != nullptr ? device : "host";
}

// Three blocks, everything that can differ switched on: dropout, several microbatches, odd sizes.
class SmallRun {
 public:
  SmallRun() {
    std::ofstream file(folder_ / "text", std::ios::binary);
    std::uint32_t state = 7;
    for (int i = 0; i < 4000; ++i)
      file.put(static_cast<char>('a' + ((state = state * 1664525u + 1013904223u) >> 24) % 17));
  }

  // `family`: an architecture, or "llama_tied".
  Options options(const std::string& family = "gpt2") const {
    Options options;
    options.precision.compute = "fp32";
    options.model = model_of(family);
    options.data.train = options.data.validation = {(folder_ / "text").string()};
    options.device.kind = test_device();
    options.batch = {.micro_batch = 2, .micro_batches = 3};
    options.optimizer.learning_rate = 3e-3;
    options.optimizer.weight_decay = 0.1;
    options.optimizer.max_norm = 0.5;
    options.schedule = {.kind = "cosine", .warmup_steps = 3, .minimum = 1e-4};
    options.recompute.policy = "full";  // nothing is measured
    options.checkpoint.directory = folder_ / "checkpoints";
    options.checkpoint.keep = 100;
    options.run.steps = 20;
    return options;
  }

  const TemporaryFolder& folder() const { return folder_; }

 private:
  static ModelOptions model_of(const std::string& family) {
    if (family == "gpt2") return {.layers = 3, .hidden = 24, .heads = 3, .sequence = 13, .dropout = 0.1};
    if (family == "bert") {
      return {.architecture = family,
              .layers = 3,
              .hidden = 24,
              .heads = 3,
              .vocabulary = 264,
              .sequence = 13,
              .dropout = 0.1};
    }
    return {.architecture = "llama",
            .layers = 3,
            .hidden = 24,
            .heads = 4,
            .kv_heads = 2,
            .intermediate = 64,  // a block larger than the table, which then travels at once
            .sequence = 13,
            .dropout = 0,
            .tie_embeddings = family == "llama_tied"};
  }

  TemporaryFolder folder_;
};

// Everything about a run that must not depend on how it was executed.
struct Record {
  std::vector<double> losses, norms, scales;  // norm: -1 where it is not finite, as in a skipped step
  std::uint64_t hash = 0;
  bool operator==(const Record&) const = default;
};

inline void add(Record& record, double loss, double norm, double scale) {
  record.losses.push_back(loss);
  record.norms.push_back(std::isfinite(norm) ? norm : -1);
  record.scales.push_back(scale);
}

inline void add(Record& record, const StepReport& report) {
  add(record, report.loss, report.gradient_norm, report.loss_scale);
}

inline Record record_of(Trainer& trainer, int steps) {
  Record record;
  for (int i = 0; i < steps; ++i) add(record, trainer.step());
  record.hash = trainer.weights_hash();
  return record;
}

inline Record record_of(const Options& options, int steps) {
  Trainer trainer(options);
  return record_of(trainer, steps);
}

// Ways to execute a run, by name.
using Ways = std::vector<std::pair<const char*, std::function<void(Options&)>>>;

// Expects of `options` the same record in every way that layers of any kind have, and in `more`. Returns that record.
inline Record expect_same_bits(const Options& options, const std::function<Record(const Options&)>& record,
                               const std::string& where, const Ways& more = {}) {
  Ways ways = {{"resident", [](Options& o) { o.device.execution = "resident"; }},
               {"stash on the host", [](Options& o) { o.transfer.stash = "host"; }},
               {"stash on the device", [](Options& o) { o.transfer.stash = "device"; }},
               {"threads", [](Options& o) { o.device.threads = 3, o.eps.threads = 2; }},
               {"after backward", [](Options& o) { o.optimizer.update = "after_backward"; }}};
  ways.insert(ways.end(), more.begin(), more.end());
  for (const char* const policy : {"selective", "none"}) {
    ways.emplace_back(policy, [policy](Options& o) { o.recompute.policy = policy; });
  }
  const Record expected = record(options);
  for (const auto& [name, change] : ways) {
    Options other = options;
    change(other);
    EXPECT_EQ(record(other), expected) << where << ": " << name;
  }
  return expected;
}

// Makes the device of a test, given the honest one.
using DeviceWrapper = std::function<std::unique_ptr<device::Device>(std::unique_ptr<device::HostDevice>)>;

inline std::unique_ptr<device::Device> honest(std::unique_ptr<device::HostDevice> device) { return device; }

inline DeviceWrapper faulty(const FaultPlan& faults) {
  return [faults](std::unique_ptr<device::HostDevice> device) {
    return std::make_unique<FaultDevice>(std::move(device), faults);
  };
}

// The same steps without the Trainer; `before_step` is called when the step's minibatch is there, `inspect` at the end.
inline Record record_of(
    const runtime::RunPlan& plan, int steps, const std::function<void()>& inspect = [] {},
    const std::function<void(runtime::Engine&, int)>& before_step = [](runtime::Engine&, int) {}) {
  runtime::Engine engine(plan, nullptr);
  const auto data = runtime::training_samples(plan.options, runtime::dataset_settings(plan.options));
  Record record;
  std::uint64_t position = 0;
  for (int step = 0; step < steps; ++step) {
    for (int i = 0; i < engine.minibatch().sequences(); ++i) data->sample(position++, engine.minibatch().sequence(i));
    before_step(engine, step);
    const runtime::Engine::Result result = engine.train(static_cast<std::uint64_t>(step), 3e-3);
    add(record, result.loss_sum, result.gradient_norm, result.loss_scale);
  }
  engine.store().complete_updates();
  record.hash = engine.store().state_hash();
  inspect();
  return record;
}

// The same steps without the Trainer, on host devices that `wrap`, called for one after the other, has tampered with;
// `inspect` is called at the end, `before_step` when the step's minibatch is there; `decisions`: of the blocks,
// when not what the options say; without placements, at those that the options say.
inline Record record_on(
    const Options& options, int steps, const DeviceWrapper& wrap, const std::function<void()>& inspect = [] {},
    const std::function<void(runtime::Engine&, int)>& before_step = [](runtime::Engine&, int) {},
    const runtime::Decisions* decisions = nullptr) {
  const int threads = std::max(1, static_cast<int>(options.device.threads));
  runtime::Devices devices;
  for (std::int64_t i = 0; i < options.device.count; ++i) {
    devices.push_back(wrap(std::make_unique<device::HostDevice>(threads, options.transfer.link_bandwidth)));
  }
  const auto plan_with = [&](runtime::Decisions made) {
    runtime::RunParts parts = runtime::make_parts(runtime::resolve(options), std::move(devices));
    if (made.placements.empty()) made.placements = runtime::fixed_placements(parts, made);
    return runtime::RunPlan(std::move(parts), std::move(made));
  };
  const runtime::RunPlan plan =
      decisions == nullptr ? runtime::plan_run(options, std::move(devices)) : plan_with(*decisions);
  return record_of(plan, steps, inspect, before_step);
}

}  // namespace l2l::testing
