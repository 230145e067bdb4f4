// Law 2 of ranks that train together: the bits of one process with all devices, in every mode, with frozen parameters
// and with lists of layers that change. Ranks are threads here; tests/tools/ranks_test.py has processes.
#include "runtime/ranks.h"

#include <gtest/gtest.h>

#include <thread>

#include "collectives/threads.h"
#include "eps/state_gather.h"
#include "tests/laws/several_devices.h"

namespace l2l::testing {
namespace {

constexpr int kSteps = 5;

// On one rank; every rank has the same record. `predicted`, if not null: gets what is predicted after each step.
Record record_on_rank(const Options& options, runtime::Ranks& ranks, std::vector<float>* predicted) {
  runtime::Devices devices;
  for (std::int64_t i = 0; i < options.device.count; ++i)
    devices.push_back(std::make_unique<device::HostDevice>(1, options.transfer.link_bandwidth));
  const runtime::RunPlan plan = runtime::plan_run(options, std::move(devices), nullptr, ranks.place());
  runtime::Engine engine(plan, nullptr, nullptr, &ranks);
  const auto data = runtime::training_samples(plan.options, runtime::dataset_settings(plan.options));
  runtime::PreparedMinibatch prepared(plan.minibatch_shape());
  Workers alone("reader", 1);
  Record record;
  std::uint64_t position = 0;
  for (int step = 0; step < kSteps; ++step) {
    prepared.fill(
        [&](int i) { return data->rows(position + static_cast<std::uint64_t>(i)); },
        [&](int i, const SampleView& sample) { data->sample(position + static_cast<std::uint64_t>(i), sample); },
        alone);
    position += static_cast<std::uint64_t>(prepared.shape().samples());
    engine.minibatch().take(prepared);
    const runtime::Engine::Result result = engine.train(static_cast<std::uint64_t>(step), 3e-3);
    add(record, result.loss_sum, result.gradient_norm, result.loss_scale);
    if (predicted == nullptr) continue;
    engine.predict(static_cast<std::uint64_t>(step) + 1, {.first = 1, .count = 2},
                   [&](std::int64_t, std::int64_t, std::span<const float> values) {
                     predicted->insert(predicted->end(), values.begin(), values.end());
                   });
  }
  add(record, engine.evaluate(kSteps), 0, 0);
  if (!ranks.several()) {
    record.hash = engine.store().state_hash();
    return record;
  }
  collectives::Collectives peers = ranks.split();
  record.hash = eps::StateGather(engine.store(), peers).state_hash();
  return record;
}

// Of `count` ranks with `devices` devices each.
Record record_on_ranks(Options options, int count, int devices = 1, std::vector<float>* predicted = nullptr) {
  options.device.count = devices;
  options.checkpoint.directory.clear();
  if (count == 1) {
    runtime::Ranks alone;
    return record_on_rank(options, alone, predicted);
  }
  std::vector<std::unique_ptr<collectives::Transport>> transports = collectives::connected_threads(count);
  std::vector<Record> records(transports.size());
  std::vector<std::vector<float>> predictions(transports.size());
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < transports.size(); ++rank) {
    threads.emplace_back([&, rank] {
      runtime::Ranks ranks(std::move(transports[rank]));
      records[rank] = record_on_rank(options, ranks, predicted != nullptr ? &predictions[rank] : nullptr);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Record& record : records) EXPECT_EQ(record, records[0]);
  if (predicted != nullptr) *predicted = predictions[0];
  return records[0];
}

Options options_of(const SmallRun& run, const std::string& family = "gpt2") {
  Options options = run.options(family);
  options.batch.micro_batches = 12;
  return options;
}

TEST(Ranks, HaveTheBitsOfOneProcess) {
  const SmallRun run;
  for (const std::string family : {"gpt2", "bert", "llama", "llama_tied"}) {
    for (const std::string compute : {"fp32", "bf16", "fp16"}) {
      Options options = options_of(run, family);
      options.precision.compute = compute;
      const Record expected = record_on_ranks(options, 1, 4);
      for (const char* const wire : {"replicated", "sharded"}) {
        options.distributed.wire = wire;
        EXPECT_EQ(record_on_ranks(options, 4), expected) << family << " " << compute << " " << wire;
        for (const char* const sums : {"host", "devices"}) {
          options.device.sums = sums;
          EXPECT_EQ(record_on_ranks(options, 2, 2), expected) << family << " " << compute << " " << wire << " " << sums;
        }
      }
    }
  }
}

TEST(Ranks, HaveThemInEveryMode) {
  const SmallRun run;
  for (const auto& [name, change] : kModes) {
    Options options = options_of(run);
    change(options);
    const Record expected = record_on_ranks(options, 1, 3);
    EXPECT_EQ(record_on_ranks(options, 3), expected) << name;
    const Record of_four = record_on_ranks(options, 1, 4);
    EXPECT_EQ(record_on_ranks(options, 2, 2), of_four) << name << ", sums of two devices";
    options.distributed.wire = "sharded";
    EXPECT_EQ(record_on_ranks(options, 3), expected) << name << ", sharded";
    options.device.feed = "gathered";
    EXPECT_EQ(record_on_ranks(options, 2, 2), of_four) << name << ", sharded, and gathered by devices";
    options.device.sums = "devices";
    EXPECT_EQ(record_on_ranks(options, 2, 2), of_four) << name << ", sharded, gathered and summed by devices";
    options.distributed.wire = "replicated";
    EXPECT_EQ(record_on_ranks(options, 2, 2), of_four) << name << ", summed by devices";
  }
}

// Groups of devices over which layers are split are spread over ranks as devices are.
TEST(Ranks, HaveThemWhereLayersAreSplit) {
  const SmallRun run;
  for (const std::string family : {"gpt2", "llama"}) {
    for (const std::string compute : {"fp32", "bf16"}) {
      Options options = options_of(run, family);
      options.model.hidden = 32;
      options.model.heads = 4;
      options.model.intermediate = 64;
      options.model.sequence = 12;
      options.device.tensor = 2;
      options.precision.compute = compute;
      const Record of_two = record_on_ranks(options, 1, 4), of_four = record_on_ranks(options, 1, 8);
      EXPECT_EQ(record_on_ranks(options, 2, 2), of_two) << family << " " << compute;
      EXPECT_EQ(record_on_ranks(options, 2, 4), of_four) << family << " " << compute;
      EXPECT_EQ(record_on_ranks(options, 4, 2), of_four) << family << " " << compute;
      EXPECT_NE(of_two, of_four) << "another sum is seen";
    }
  }
}

// Between two steps the first device of each rank visits layers alone, as predictions do.
TEST(Ranks, TheFirstDevicePredictsAlone) {
  const SmallRun run;
  for (const char* const wire : {"replicated", "sharded"}) {
    for (const char* const execution : {"relay", "resident"}) {
      Options options = options_of(run);
      options.distributed.wire = wire;
      options.device.execution = execution;
      std::vector<float> alone, together;
      const Record expected = record_on_ranks(options, 1, 4, &alone);
      EXPECT_EQ(record_on_ranks(options, 2, 2, &together), expected) << wire << " " << execution;
      EXPECT_GT(alone.size(), 0U);
      EXPECT_EQ(together, alone) << wire << " " << execution;
    }
  }
}

// Negative control: another number of devices adds otherwise.
TEST(Ranks, AnotherSumIsSeen) {
  const SmallRun run;
  EXPECT_NE(record_on_ranks(options_of(run), 3), record_on_ranks(options_of(run), 1, 4));
}

}  // namespace
}  // namespace l2l::testing
