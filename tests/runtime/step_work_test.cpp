// The pieces of a step are those that a run counts.
#include "runtime/plan/step_work.h"

#include <gtest/gtest.h>

#include "runtime/engine.h"
#include "tests/runtime/prediction_fixture.h"

namespace l2l::runtime {
namespace {

void count_work(const Options& options) {
  const RunPlan plan = plan_run(options);
  Bytes h2d = 0, d2h = 0;
  std::size_t updated = 0;
  for (const VisitWork& visit : step_work(plan)) {
    h2d += visit.h2d();
    d2h += visit.d2h();
    updated += visit.updated.size();
  }
  EXPECT_EQ(updated, plan.model.layout.groups.size());
  Engine engine(plan, nullptr);
  const auto bytes = [&](transfer::Traffic traffic) { return engine.link().h2d(traffic) + engine.link().d2h(traffic); };
  engine.train(0, 1e-3);
  engine.store().complete_updates();
  EXPECT_EQ(h2d + d2h,
            bytes(transfer::Traffic::weights) + bytes(transfer::Traffic::stash) + bytes(transfer::Traffic::gradients));
  EXPECT_EQ(eps::ParameterStore::bytes_moved(plan.model.layout, plan.store), engine.store().work().bytes);
  EXPECT_GT(engine.store().work().busy.count(), 0);
}

// The link's counters are the independent witness, and the store's count of its jobs.
TEST(StepWork, IsWhatARunCounts) {
  for (const char* const execution : {"relay", "resident"}) {
    for (const std::string stash : {"host", "device", "none"}) {
      for (const int chunk : {0, 100, 256}) {
        for (const char* const compute : {"fp32", "bf16"}) {
          SCOPED_TRACE(std::string(execution) + ", stash " + stash + ", chunks of " + std::to_string(chunk) + ", " +
                       compute);
          Options options = small_options();
          options.device.execution = execution;
          // "none": blocks rebuild their inputs.
          if (stash == "none") options.model.reversible = "float";
          if (stash != "none") options.transfer.stash = stash;
          options.transfer.vocabulary_chunk = chunk;
          options.precision.compute = compute;
          options.optimizer.clip = chunk == 0 ? "global" : "none";
          count_work(options);
        }
      }
    }
  }
}

// Of the first device of those over which layers are split.
TEST(StepWork, OfSplitLayersIsWhatARunCounts) {
  for (const char* const execution : {"relay", "resident"}) {
    for (const char* const stash : {"host", "device"}) {
      SCOPED_TRACE(std::string(execution) + ", stash " + stash);
      Options options = small_options();
      options.device.execution = execution;
      options.transfer.stash = stash;
      options.device.count = options.device.tensor = 2;
      count_work(options);
    }
  }
}

// By hand: traffic per parameter of AdamW is 28 bytes in fp32: a gradient, three arrays read and written. Gradients of
// layers that are shared with the table are read twice, for a check; the table's come twice.
TEST(StepWork, BytesOfTheParameterServerByHand) {
  Options options = small_options();
  options.transfer.vocabulary_chunk = 256;
  const RunPlan plan = plan_run(options);
  const Bytes block = 12 * 64 * 64 + 13 * 64, table = 256 * 64, positions = 16 * 64, norm = 2 * 64;
  EXPECT_EQ(eps::ParameterStore::bytes_moved(plan.model.layout, plan.store),
            28 * 4 * block + 32 * (positions + norm) + (24 + 2 * 8) * table);
}

}  // namespace
}  // namespace l2l::runtime
