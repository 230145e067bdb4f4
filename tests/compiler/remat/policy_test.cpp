// What policies keep, and that the programs of every policy compute what the layer's plain programs do.
#include "compiler/remat/policy.h"

#include <gtest/gtest.h>

#include "compiler/remat/verifier.h"
#include "l2l/errors.h"
#include "tests/compiler/remat/layers.h"
#include "tests/compiler/remat/visit_run.h"

namespace l2l::compiler::remat {
namespace {

constexpr Policy kPolicies[] = {Policy::full, Policy::selective, Policy::min_cut, Policy::none};

Program planned(const Graph& graph) {
  return plan_program(graph, [](const Graph&, std::size_t) { return Bytes{0}; });
}

std::string verified(const Graph& layer, const Visits& visits) {
  return verify(layer, planned(visits.forward), planned(visits.backward));
}

Visits visits_of(const Graph& layer, Policy policy) {
  return compiler::differentiate(layer, values_to_save(layer, policy));
}

TEST(Policy, NamesAreReadBack) {
  for (const Policy policy : kPolicies) EXPECT_EQ(parse_policy(name_of(policy)), policy);
  EXPECT_THROW(parse_policy("most"), BadInput);
}

TEST(Policy, EveryPolicyGivesTheSameBits) {
  for (const DType compute : {DType::f32, DType::bf16, DType::f16}) {
    for (const NamedLayer& layer : layer_types(compute)) {
      const VisitResults full = VisitRun(visits_of(layer.forward, Policy::full)).run();
      for (const Policy policy : kPolicies) {
        const Visits visits = visits_of(layer.forward, policy);
        EXPECT_TRUE(VisitRun(visits).run() == full) << layer.name << ", " << name_of(policy);
        EXPECT_EQ(verified(layer.forward, visits), "") << layer.name << ", " << name_of(policy);
      }
    }
  }
}

std::size_t count(const Graph& graph, OpKind kind) {
  return static_cast<std::size_t>(
      std::count_if(graph.ops.begin(), graph.ops.end(), [&](const Op& op) { return op.kind == kind; }));
}

// Of GPT-2's block: four products and attention forward; each product has two in its gradient.
TEST(Policy, WhatRunsAgain) {
  const Graph layer = layer_types(DType::f32)[0].forward;
  const auto runs = [&](Policy policy, OpKind kind) { return count(visits_of(layer, policy).backward, kind); };
  EXPECT_EQ(runs(Policy::full, OpKind::matmul), 8u + 3u);  // the last projection's result is read by nobody
  EXPECT_EQ(runs(Policy::full, OpKind::attention), 1u);
  EXPECT_EQ(runs(Policy::none, OpKind::matmul), 8u);
  EXPECT_EQ(runs(Policy::none, OpKind::attention), 0u);
  EXPECT_EQ(runs(Policy::none, OpKind::layer_norm), 0u);
  EXPECT_EQ(runs(Policy::none, OpKind::gelu), 0u);
  EXPECT_EQ(runs(Policy::min_cut, OpKind::matmul), 8u);
  EXPECT_EQ(runs(Policy::min_cut, OpKind::layer_norm), 2u);
  EXPECT_EQ(runs(Policy::min_cut, OpKind::gelu), 1u);
}

TEST(Policy, KeepsNoMoreThanItNeeds) {
  for (const NamedLayer& layer : layer_types(DType::bf16)) {
    const auto bytes = [&](Policy policy) {
      return visits_of(layer.forward, policy).forward.region_bytes(Region::saved);
    };
    EXPECT_EQ(bytes(Policy::full), 0u);
    EXPECT_LE(bytes(Policy::min_cut), bytes(Policy::none)) << layer.name;
  }
}

// Negative controls: programs that are wrong in one way each, which the verifier must see.
class Verifier : public ::testing::Test {
 protected:
  const Graph layer_ = layer_types(DType::f32)[0].forward;
  Visits visits_ = visits_of(layer_, Policy::min_cut);
  Program forward_ = planned(visits_.forward), backward_ = planned(visits_.backward);

  std::string verdict() const { return verify(layer_, forward_, backward_); }
  std::size_t launch_of(const Program& program, OpKind kind) const {
    for (std::size_t i = 0; i < program.launches.size(); ++i) {
      if (program.launches[i].op.kind == kind) return i;
    }
    throw Error("no such launch");
  }
};

TEST_F(Verifier, PassesWhatIsRight) { EXPECT_EQ(verdict(), ""); }

TEST_F(Verifier, SeesAForgottenLaunch) {
  backward_.launches.erase(backward_.launches.begin() +
                           static_cast<std::ptrdiff_t>(launch_of(backward_, OpKind::gelu)));
  EXPECT_NE(verdict(), "");
}

TEST_F(Verifier, SeesAnOverwrittenValue) {
  // The first result in scratch goes where another one that is still needed lies.
  for (Launch& launch : backward_.launches) {
    Operand& result = launch.operands[launch.op.inputs.size()];
    if (result.region != Region::scratch || result.offset == 0) continue;
    result.offset = 0;
    break;
  }
  EXPECT_NE(verdict(), "");
}

TEST_F(Verifier, SeesOtherRandomNumbers) {
  backward_.launches[launch_of(backward_, OpKind::dropout)].op.attributes.rng_op += 1;
  EXPECT_NE(verdict(), "");
}

TEST_F(Verifier, SeesASumInAnotherOrderOrTwice) {
  const std::size_t bias = launch_of(backward_, OpKind::bias_gradient);
  backward_.launches.insert(backward_.launches.begin() + static_cast<std::ptrdiff_t>(bias), backward_.launches[bias]);
  EXPECT_NE(verdict(), "");
}

TEST_F(Verifier, SeesASavedValueThatTheForwardVisitDidNotWrite) {
  Program& forward = forward_;
  for (Launch& launch : forward.launches) {
    for (std::size_t i = launch.op.inputs.size(); i < launch.operands.size(); ++i) {
      if (launch.operands[i].region == Region::saved) launch.operands[i].offset += 1 << 20;
    }
  }
  EXPECT_NE(verdict(), "");
}

TEST_F(Verifier, SeesTransposedOperands) {
  for (Launch& launch : backward_.launches) {
    if (launch.op.kind != OpKind::add) continue;
    std::swap(launch.operands[0], launch.operands[1]);
    std::swap(launch.op.inputs[0], launch.op.inputs[1]);
    break;
  }
  EXPECT_NE(verdict(), "");
}

}  // namespace
}  // namespace l2l::compiler::remat
