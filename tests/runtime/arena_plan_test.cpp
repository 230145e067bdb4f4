// The arena against the phases of a pass, written down here a second time.
#include "runtime/plan/arena_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "compiler/memory/planner.h"
#include "runtime/plan_run.h"

namespace l2l::runtime {
namespace {

// Too little for a stash on the device, and more than one on the host needs.
Bytes memory_between(Options options) {
  options.transfer.stash = "host";
  const Bytes host = plan_run(options).arena->bytes();
  options.transfer.stash = "device";
  return (host + plan_run(options).arena->bytes()) / 2;
}

Options options(const std::string& stash, const std::string& execution = "relay", std::int64_t chunk = 0,
                const std::string& policy = "full") {
  Options options;
  options.precision.compute = "fp32";
  options.model = {.layers = 5, .hidden = 64, .heads = 4, .sequence = 64, .dropout = 0};
  options.batch = {.micro_batch = 2, .micro_batches = 4};
  options.device.kind = "host";
  options.device.execution = execution;
  // "none": blocks rebuild their inputs.
  if (stash == "none") options.model.reversible = "fixed";
  if (stash != "none") options.transfer.stash = stash == "split" ? "auto" : stash;
  options.transfer.vocabulary_chunk = chunk;
  options.recompute.policy = policy;
  options.eps.threads = 1;
  if (stash == "split") {
    options.transfer.resident_layers = 2;
    options.device.memory = memory_between(options);
  }
  return options;
}

struct Use {
  std::string name;
  Bytes begin, end;
  std::vector<Phase> phases;  // none: always
};

std::vector<Use> uses(const RunPlan& plan) {
  std::vector<std::byte> memory(1);
  const device::BufferView arena{memory.data(), plan.arena->bytes()};
  const bool none = plan.model.rebuilds(), relay = plan.execution.execution == Execution::relay;
  const std::vector<Phase> backward_pass = {Phase::head, Phase::backward, Phase::embedding};
  std::vector<Use> uses;
  const auto add = [&](const std::string& name, device::BufferView view, std::vector<Phase> phases) {
    const auto begin = static_cast<Bytes>(view.data - arena.data);
    uses.push_back({name, begin, begin + view.size, std::move(phases)});
  };
  const auto add_part = [&](const std::string& name, ArenaPart part, const std::vector<Phase>& phases) {
    for (const device::BufferView& view : plan.arena->views(part, arena)) add(name, view, phases);
  };
  add_part("weights", ArenaPart::weights, {});
  add_part("accumulators", ArenaPart::accumulators, relay ? backward_pass : std::vector<Phase>{});
  add_part("drain", ArenaPart::drain, {});
  add_part("weights that stay", ArenaPart::own_weights, {});
  add_part("stash", ArenaPart::stash, {Phase::forward, Phase::head, Phase::backward});
  add_part("activations", ArenaPart::activations, {Phase::forward, Phase::store, Phase::head});
  add_part("rebuilt", ArenaPart::rebuilt, {Phase::forward, Phase::head, Phase::backward, Phase::embedding});
  add_part("fetch", ArenaPart::fetch, {Phase::fetch, Phase::backward});
  add_part("saved", ArenaPart::saved, {Phase::forward, Phase::head, Phase::backward});
  add_part("saved on its way out", ArenaPart::saved_out, {Phase::forward, Phase::store_saved});
  add_part("saved on its way back", ArenaPart::saved_fetch, {Phase::fetch_saved, Phase::backward});
  // In the forward pass, the rows of a reversible model's embedding in chunks lie there.
  std::vector<Phase> gradients = backward_pass;
  if (none && plan.options.transfer.vocabulary_chunk > 0) gradients.push_back(Phase::forward);
  add_part("input gradients", ArenaPart::input_gradients, gradients);
  add_part("inputs", ArenaPart::inputs, {});
  add_part("targets", ArenaPart::targets, {});
  add_part("losses", ArenaPart::losses, {});
  add_part("logits", ArenaPart::logits, {});
  add_part("carry", ArenaPart::carry, {Phase::head});
  for (const Phase phase : {Phase::forward, Phase::head, Phase::backward, Phase::embedding}) {
    add("scratch", plan.arena->scratch(phase, arena), {phase});
  }
  return uses;
}

// Which phases may be under way at once: fetches begin while the head runs; stores still run then, too. Layer inputs
// and saved values do not wait for each other.
bool together(Phase a, Phase b) {
  if (a == b) return true;
  const auto pair = std::minmax(a, b);
  const auto is = [&](Phase x, Phase y) { return pair == std::minmax(x, y); };
  for (const auto& [store, fetch] :
       {std::pair{Phase::store, Phase::fetch}, std::pair{Phase::store_saved, Phase::fetch_saved}}) {
    if (is(Phase::forward, store) || is(store, Phase::head) || is(fetch, Phase::head) || is(fetch, Phase::backward))
      return true;
  }
  return is(Phase::store, Phase::store_saved) || is(Phase::store, Phase::fetch_saved) ||
         is(Phase::store_saved, Phase::fetch) || is(Phase::fetch, Phase::fetch_saved);
}

bool alive_together(const Use& a, const Use& b) {
  if (a.phases.empty() || b.phases.empty()) return true;
  for (const Phase x : a.phases) {
    for (const Phase y : b.phases) {
      if (together(x, y)) return true;
    }
  }
  return false;
}

std::string clash(const std::vector<Use>& uses) {
  for (std::size_t i = 0; i < uses.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (uses[i].begin < uses[j].end && uses[j].begin < uses[i].end && alive_together(uses[i], uses[j])) {
        return uses[i].name + " and " + uses[j].name;
      }
    }
  }
  return "";
}

class Arena : public ::testing::TestWithParam<std::tuple<const char*, const char*, int, const char*>> {
 protected:
  RunPlan plan() const {
    const auto& [stash, execution, chunk, policy] = GetParam();
    return plan_run(options(stash, execution, chunk, policy));
  }
};

TEST_P(Arena, WhatIsAliveAtOnceIsDisjoint) { EXPECT_EQ(clash(uses(plan())), ""); }

TEST_P(Arena, IsNoLargerThanItsPartsAndItsLinesAddUp) {
  const RunPlan plan = this->plan();
  EXPECT_LE(plan.arena->bytes(), plan.arena->bytes_apart());
  if (plan.execution.stashed(StashPlace::host) == plan.model.blocks()) {
    EXPECT_LT(plan.arena->bytes(), plan.arena->bytes_apart());
  }
  Bytes sum = 0;
  for (const ContractLine& line : plan.arena->lines()) sum += line.bytes;
  EXPECT_EQ(sum, plan.arena->bytes());
}

INSTANTIATE_TEST_SUITE_P(Kinds, Arena,
                         ::testing::Combine(::testing::Values("host", "device"), ::testing::Values("relay", "resident"),
                                            ::testing::Values(0, 100), ::testing::Values("full", "none")));
INSTANTIATE_TEST_SUITE_P(WithoutAStash, Arena,
                         ::testing::Combine(::testing::Values("none"), ::testing::Values("relay", "resident"),
                                            ::testing::Values(0, 100), ::testing::Values("full")));

INSTANTIATE_TEST_SUITE_P(Split, Arena,
                         ::testing::Combine(::testing::Values("split"), ::testing::Values("relay"),
                                            ::testing::Values(0, 100), ::testing::Values("full", "none")));

// As many blocks' stashes lie on the device as fit there, spread evenly, and two blocks' weights stay.
TEST(Arena, AStashIsSplitWhereNotAllOfItFits) {
  const RunPlan plan = plan_run(options("split"));
  const int on_device = plan.execution.stashed(StashPlace::device);
  EXPECT_GT(on_device, 0);
  EXPECT_LT(on_device, plan.model.blocks());
  EXPECT_LE(plan.arena->bytes(), plan.options.device.memory);
  EXPECT_EQ(plan.execution.staying_weights(), 2);
  EXPECT_FALSE(
      plan.execution.placements.back().weights_stay);  // it stays while the head runs, without a place of its own
  ExecutionPlan more = plan.execution;
  more.placements = split_stashes(plan.model.blocks(), on_device + 1);
  keep_weights(more.placements, {1, plan.model.blocks() - 1}, 2);
  EXPECT_GT(ArenaPlan(plan.model, scratch_of(plan.model, plan.programs), more).bytes(), plan.options.device.memory);
}

TEST(Interleaved, SpreadsEachKind) {
  for (const std::vector<std::size_t>& counts :
       {std::vector<std::size_t>{5, 0, 7}, {1, 1, 1}, {24, 3}, {3, 24, 9, 1}, {0}}) {
    const std::vector<std::size_t> row = interleaved(counts);
    ASSERT_EQ(row.size(), std::accumulate(counts.begin(), counts.end(), std::size_t{0}));
    for (std::size_t kind = 0; kind < counts.size(); ++kind) {
      std::size_t placed = 0;
      for (std::size_t i = 0; i < row.size(); ++i) {
        placed += row[i] == kind;
        const double share = static_cast<double>(counts[kind] * (i + 1)) / static_cast<double>(row.size());
        EXPECT_LT(std::abs(static_cast<double>(placed) - share), static_cast<double>(counts.size()))
            << kind << " " << i;
      }
      EXPECT_EQ(placed, counts[kind]);
    }
  }
}

// By hand: layer inputs on their way out lie in the scratch of the blocks' backward pass, which is larger.
TEST(Arena, TheWayOutCostsNothingBesideTheScratch) {
  const RunPlan plan = plan_run(options("host"));
  for (const ContractLine& line : plan.arena->lines()) {
    if (line.what.starts_with("layer inputs on their way to the stash")) {
      EXPECT_EQ(line.bytes, 0u) << line.what;
    }
  }
}

// Negative control: nothing waits until the stash has been stored. Then the planner may not let the memory through
// which it leaves be shared with the backward pass, and a plan that does is refused.
TEST(Arena, NegativeControlSharingWithoutTheWaitForTheStoreIsRefused) {
  using namespace compiler::memory;
  const RunPlan plan = plan_run(options("host"));
  StreamProgram program = plan.arena->program();
  const Problem honest = lower(program);
  const Plan shared = compiler::memory::plan(honest);
  ASSERT_EQ(validate(honest, shared), "");
  std::erase_if(program.events, [](const Event& event) { return event.after == static_cast<Index>(Phase::store); });
  const Problem unsafe = lower(program);
  EXPECT_NE(validate(unsafe, shared), "");
  EXPECT_GT(compiler::memory::plan(unsafe).footprint, shared.footprint);
}

// The check above sees a clash.
TEST(Arena, NegativeControlAClashIsSeen) {
  std::vector<Use> all = uses(plan_run(options("host")));
  const auto named = [&](const char* name) {
    return std::find_if(all.begin(), all.end(), [&](const Use& use) { return use.name == name; });
  };
  const Use fetch = *named("fetch");
  named("input gradients")->begin = fetch.begin;
  named("input gradients")->end = fetch.end;
  EXPECT_NE(clash(all), "");
}

}  // namespace
}  // namespace l2l::runtime
