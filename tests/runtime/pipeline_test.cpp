// The stages between options and a memory contract, each from a value made by hand: nothing is measured.
#include <gtest/gtest.h>

#include <algorithm>

#include "runtime/plan/fixed_decisions.h"
#include "runtime/plan/memory_contract.h"
#include "runtime/tuning/step_choice.h"
#include "tests/runtime/test_data.h"

namespace l2l::runtime {
namespace {

constexpr int kPipelineBlocks = 4;
constexpr int kMicrobatches = 2;
constexpr Bytes kEnough = Bytes{1} << 40;

Options pipeline_options() {
  Options options;
  options.precision.compute = "fp32";
  options.model = {.layers = kPipelineBlocks, .hidden = 64, .heads = 4, .sequence = 16, .dropout = 0};
  options.batch = {.micro_batch = 2, .micro_batches = kMicrobatches};
  options.device.kind = "host";
  options.device.threads = 1;
  options.recompute.policy = "full";
  options.eps.threads = 1;
  return options;
}

RunParts parts() {
  ResolvedOptions options{pipeline_options()};
  options.batch.minibatch = 2 * kMicrobatches;
  return make_parts(std::move(options));
}

// A microbatch's forward visit takes 1 ms; its backward visit 3 ms, or 2 where the block keeps all that it reads. The
// link takes no time.
Candidates two_programs(const RunParts& parts) {
  using compiler::remat::Policy;
  Candidates candidates;
  candidates.scratch = {{Phase::forward, 0}, {Phase::head, 0}, {Phase::backward, 0}, {Phase::embedding, 0}};
  BlockCandidates& blocks = candidates.types.emplace_back();
  blocks.blocks = {1, 2, 3, 4};
  for (const Policy policy : {Policy::full, Policy::none}) {
    BlockProgram& program = blocks.programs.emplace_back();
    program.policy = uniform_policy(parts.model, policy).policies[0];
    program.forward = {1e-3, 0};
    program.backward = {policy == Policy::full ? 3e-3 : 2e-3, 0};
    program.saved = program.policy.visits.forward.region_bytes(compiler::Region::saved);
  }
  return candidates;
}

int blocks_with(const Decisions& decisions, const std::string& policy) {
  int count = 0;
  for (const int index : decisions.policy_of)
    count += decisions.policies[static_cast<std::size_t>(index)].name == policy;
  return count;
}

TEST(ResolvedOptions, HaveNumbersAndFiles) {
  test::Data data;
  data.write("text", std::string(1000, 'a'));
  Options options = pipeline_options();
  options.batch = {.minibatch = 12};
  options.data.train = {data.path("text")};
  options.recompute = {.policy = "budget", .budget = 1 << 20};
  const ResolvedOptions resolved = resolve(options);
  EXPECT_EQ(resolved.batch.micro_batch, 6);
  EXPECT_EQ(resolved.batch.micro_batches, 2);
  EXPECT_EQ(resolved.recompute.policy, "full");
  EXPECT_TRUE(resolved.recompute.leaves_choice());
  EXPECT_FALSE(resolved.chooses_micro_batch);
  ASSERT_EQ(resolved.train.size(), 1u);
  EXPECT_EQ(resolved.train[0].files.size(), 1u);
  EXPECT_FALSE(resolved.validation);
  options.recompute.policy = "auto";  // with a budget
  EXPECT_EQ(resolve(options).recompute.policy, "full");
  options.recompute.budget = 0;
  EXPECT_EQ(resolve(options).recompute.policy, "auto");
  EXPECT_FALSE(resolve(options).chooses_micro_batch);
  options.batch.micro_batch = BatchOptions::kChosen;
  EXPECT_TRUE(resolve(options).chooses_micro_batch);
  EXPECT_EQ(resolve(options).batch.micro_batch, 6);
  options.batch.micro_batch = 0;
  options.model.reversible = "float";
  EXPECT_EQ(resolve(options).recompute.policy, "full");
  options.data.validation = {data.path("missing")};
  EXPECT_THROW(resolve(options), BadInput);
}

TEST(RunParts, FollowFromOptionsAndTheMicrobatch) {
  const RunParts two = parts();
  EXPECT_EQ(two.model.blocks(), kPipelineBlocks);
  EXPECT_EQ(two.execution.microbatches, kMicrobatches);
  EXPECT_TRUE(two.execution.placements.empty());
  const RunParts four = with_micro_batch(two, 4);
  EXPECT_EQ(four.options.batch.micro_batches, 1);
  EXPECT_EQ(four.execution.microbatches, 1);
  EXPECT_EQ(four.model.rows, 2 * two.model.rows);
  EXPECT_EQ(four.devices, two.devices);
}

TEST(Proposals, KeepWhatSavesTimeWhereItFits) {
  const RunParts run = parts();
  const Candidates candidates = two_programs(run);
  const std::optional<Proposal> all = shortest(run, candidates, {}, {kEnough, kEnough, kEnough});
  ASSERT_TRUE(all);
  EXPECT_EQ(all->time, kPipelineBlocks * kMicrobatches * 3'000'000);
  EXPECT_EQ(blocks_with(all->decisions, "none"), kPipelineBlocks);
  // Between the arenas of both: some blocks keep, on the device; none may keep anything on the host.
  Decisions least = uniform_policy(run.model, compiler::remat::Policy::full), most = all->decisions;
  least.placements = most.placements = split_stashes(kPipelineBlocks, kPipelineBlocks);
  const Bytes middle = (arena_bytes(run, least) + arena_bytes(run, most)) / 2;
  const std::optional<Proposal> some = shortest(run, candidates, {StashPlace::device}, {middle, 0, kEnough});
  ASSERT_TRUE(some);
  EXPECT_GT(blocks_with(some->decisions, "none"), 0);
  EXPECT_LT(blocks_with(some->decisions, "none"), kPipelineBlocks);
  EXPECT_EQ(some->time, (kPipelineBlocks * 4 - blocks_with(some->decisions, "none")) * kMicrobatches * 1'000'000);
  EXPECT_FALSE(shortest(run, candidates, {}, {1, kEnough, kEnough}));
}

TEST(Proposals, BeginWithTheShortestAndLeaveOutWhatIsMuchLonger) {
  const RunParts run = parts();
  const std::vector<Proposal> proposals = propose(run, two_programs(run), {kEnough, kEnough, kEnough});
  ASSERT_FALSE(proposals.empty());
  EXPECT_EQ(blocks_with(proposals.front().decisions, "none"), kPipelineBlocks);
  for (const Proposal& proposal : proposals) {
    EXPECT_EQ(blocks_with(proposal.decisions, "full"), 0) << "4 ms are more than 5/4 of 3 ms";
    EXPECT_EQ(proposal.decisions.placements.size(), std::size_t{kPipelineBlocks});
  }
}

TEST(Decide, TakesTheFirstUnlessMeasuredStepsSayOtherwise) {
  std::vector<Proposal> proposals(2);
  proposals[1].time = 1;
  EXPECT_EQ(&decide(proposals, {}), &proposals[0]);
  EXPECT_EQ(&decide(proposals, {{1, 0}, {0.8, 0}}), &proposals[1]);
  EXPECT_EQ(&decide(proposals, {{1, 0}, {0.995, 0}}), &proposals[0]);
}

Decisions mixed_decisions(const RunParts& parts) {
  Decisions decisions = uniform_policy(parts.model, compiler::remat::Policy::min_cut);
  decisions.placements = {{StashPlace::host, true}, {StashPlace::device, false}, {}, {}};
  decisions.explanation = {"by hand"};
  return decisions;
}

TEST(RunPlan, CarriesOutItsDecisions) {
  const RunParts run = parts();
  const RunPlan plan(run, mixed_decisions(run));
  EXPECT_EQ(plan.execution.placements, mixed_decisions(run).placements);
  EXPECT_EQ(plan.arena->bytes(), arena_bytes(run, mixed_decisions(run)));
  EXPECT_GT(plan.model.saved_bytes(plan.model.block(1)), 0u);
  EXPECT_EQ(run.model.saved_bytes(run.model.block(1)), 0u);
  EXPECT_THROW(RunPlan(run, uniform_policy(run.model, compiler::remat::Policy::full)), Error) << "no placements";
}

TEST(MemoryContract, CountsTheDocumentsOfAllTrainingData) {
  RunParts run = parts();
  DataFiles three, five;
  three.document_ends = {10, 20, 30};
  five.document_ends = {1, 2, 3, 4, 5};
  run.options.train = {three, five};
  ASSERT_EQ(sample_kind(run.options), SampleKind::stream);
  const std::vector<ContractLine> lines = host_lines(run, {}, 0);
  const auto line = std::find_if(lines.begin(), lines.end(), [](const ContractLine& each) {
    return each.what == "documents of the training data";
  });
  ASSERT_NE(line, lines.end());
  EXPECT_EQ(line->bytes, (3 + 5) * sizeof(std::uint64_t));
}

TEST(MemoryContract, FollowsFromDecisions) {
  const RunParts run = parts();
  Decisions decisions = mixed_decisions(run);
  const MemoryContract contract = memory_contract(RunPlan(run, decisions));
  EXPECT_EQ(contract.device_bytes, arena_bytes(run, decisions));
  EXPECT_EQ(contract.stash, "split");
  EXPECT_EQ(contract.blocks_stashed_on_device, 1);
  EXPECT_EQ(contract.resident_layers, 1);
  EXPECT_EQ(contract.recomputation, decisions.explanation);
  decisions.peak = kEnough;
  const MemoryContract raised = memory_contract(RunPlan(run, decisions));
  EXPECT_EQ(raised.host_bytes, kEnough);
  EXPECT_EQ(raised.host.back().what, "more, while recomputation was measured");
}

TEST(MemoryContract, IsHeldToTheLimits) {
  RunParts run = parts();
  const Bytes need = arena_bytes(run, mixed_decisions(run));
  run.options.device.memory = need;
  const RunPlan fits(run, mixed_decisions(run));
  EXPECT_NO_THROW(check_limits(fits, memory_contract(fits)));
  run.options.device.memory = need - 1;
  const RunPlan large(run, mixed_decisions(run));
  EXPECT_THROW(check_limits(large, memory_contract(large)), OutOfMemory);
}

}  // namespace
}  // namespace l2l::runtime
