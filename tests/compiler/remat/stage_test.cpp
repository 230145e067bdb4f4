// Staged programs: a budget is a hard cap, more memory never costs time, and the bits are those of the plain program.
#include "compiler/remat/stage.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "compiler/remat/policy.h"
#include "compiler/remat/verifier.h"
#include "l2l/errors.h"
#include "tests/compiler/remat/layers.h"
#include "tests/compiler/remat/visit_run.h"

namespace l2l::compiler::remat {
namespace {

constexpr std::size_t kBudgets = 50;

// Products by their multiplications, other ops by their results: about what a processor takes.
Nanoseconds time_of(const Graph& graph, const compiler::Op& op) {
  Nanoseconds results = 0;
  for (const compiler::ValueId id : op.outputs) results += static_cast<Nanoseconds>(graph.value(id).shape.elements());
  if (op.kind != compiler::OpKind::matmul) return results;
  return results * static_cast<Nanoseconds>(graph.value(op.inputs[0]).shape.elements()) / 1024;
}

class Staging {
 public:
  explicit Staging(const Graph& forward, Policy policy = Policy::full)
      : forward_(forward), visits_(compiler::differentiate(forward, values_to_save(forward, policy))) {
    for (const compiler::Op& op : visits_.backward.ops) times_.push_back(time_of(visits_.backward, op));
    programs_ = stage({visits_.backward, times_, [&](const Graph& graph) { return scratch_of(graph); }});
  }

  const std::vector<StagedProgram>& programs() const { return programs_; }
  const Visits& visits() const { return visits_; }
  Visits with(const StagedProgram& program) const { return {visits_.forward, program.graph}; }
  Bytes scratch_of(const Graph& graph) const { return device_->compile(graph)->program().scratch_bytes; }
  Nanoseconds time(const Graph& graph) const {
    Nanoseconds sum = 0;
    for (const compiler::Op& op : graph.ops) sum += time_of(graph, op);
    return sum;
  }
  std::string verified(const StagedProgram& program) const {
    const auto planned = [](const Graph& graph) {
      return plan_program(graph, [](const Graph&, std::size_t) { return Bytes{0}; });
    };
    return verify(forward_, planned(visits_.forward), planned(program.graph));
  }

 private:
  const Graph forward_;
  const std::unique_ptr<HostDevice> device_ = std::make_unique<HostDevice>(1, 0);
  const Visits visits_;
  std::vector<Nanoseconds> times_;
  std::vector<StagedProgram> programs_;
};

TEST(Stage, ABudgetIsAHardCapAndTimeNeverRisesWithIt) {
  for (const NamedLayer& layer : layer_types(DType::f32)) {
    const Staging staging(layer.forward);
    const Bytes least = staging.programs().front().scratch, most = staging.scratch_of(staging.visits().backward);
    Nanoseconds last = ~Nanoseconds{0};
    for (std::size_t i = 0; i < kBudgets; ++i) {
      const Bytes budget = least + (most - least) * i / (kBudgets - 1);
      const StagedProgram& program = fastest_within(staging.programs(), budget);
      EXPECT_LE(staging.scratch_of(program.graph), budget) << layer.name;
      EXPECT_EQ(staging.time(program.graph), program.time) << layer.name;
      EXPECT_LE(program.time, last) << layer.name;
      last = program.time;
    }
    EXPECT_EQ(last, staging.time(staging.visits().backward)) << layer.name << ": with all memory nothing is recomputed";
    std::cout << layer.name << ": " << staging.programs().size() << " programs, scratch " << least << " to " << most
              << " bytes, time up to "
              << static_cast<double>(staging.programs().front().time) / static_cast<double>(last) << " of the least\n";
  }
}

TEST(Stage, EveryProgramGivesTheSameBitsAndStaysWithinItsScratch) {
  for (const DType compute : {DType::f32, DType::bf16}) {
    for (const NamedLayer& layer : layer_types(compute)) {
      const Staging staging(layer.forward);
      const VisitResults plain = VisitRun(staging.visits()).run();
      for (const StagedProgram& program : staging.programs()) {
        VisitRun run(staging.with(program));
        EXPECT_EQ(run.backward_scratch(), program.scratch) << layer.name << ", " << program.source;
        EXPECT_TRUE(run.run() == plain) << layer.name << ", " << program.source;
        EXPECT_EQ(staging.verified(program), "") << layer.name << ", " << program.source;
      }
    }
  }
}

TEST(Stage, StagesWhatOtherPoliciesLeave) {
  for (const Policy policy : {Policy::min_cut, Policy::none}) {
    for (const NamedLayer& layer : layer_types(DType::bf16)) {
      const Staging staging(layer.forward, policy);
      for (const StagedProgram& program : staging.programs()) {
        EXPECT_EQ(staging.verified(program), "") << layer.name << ", " << program.source;
      }
    }
  }
}

TEST(Stage, SavesMemoryWhereLayersAreDeep) {
  const Staging staging(layer_types(DType::f32)[0].forward);
  EXPECT_LT(10 * staging.programs().front().scratch, 9 * staging.programs().back().scratch);
  EXPECT_GT(staging.programs().size(), 2u);
}

TEST(Stage, ABudgetBelowTheLeastIsRefusedWithTheShortfall) {
  const Staging staging(layer_types(DType::f32)[0].forward);
  const Bytes least = staging.programs().front().scratch;
  EXPECT_EQ(&fastest_within(staging.programs(), least), &staging.programs().front());
  try {
    fastest_within(staging.programs(), least - 64);
    FAIL() << "not refused";
  } catch (const OutOfMemory& error) {
    EXPECT_NE(std::string(error.what()).find("64 B more"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace l2l::compiler::remat
