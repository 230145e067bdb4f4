#include "runtime/tuning/step_choice.h"

#include <gtest/gtest.h>

#include <limits>

namespace l2l::runtime {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::infinity();
using Indices = std::vector<std::size_t>;

TEST(StepChoice, WhatIsKnownWellIsChosenByItsValue) {
  EXPECT_EQ(shortest_of({{0.9, 0}, {0.8, 0}, {0.85, 0}}), 1u);
  EXPECT_EQ(shortest_of({{0.9, 0.001}, {0.85, 0.001}, {0.8, 0.001}}), 2u);
}

TEST(StepChoice, OfThoseThatAreAsGoodThePredictedOneIsTaken) {
  EXPECT_EQ(shortest_of({{0.807, 0}, {0.8, 0}}), 0u);
  EXPECT_EQ(shortest_of({{0.809, 0}, {0.8, 0}}), 1u);
  // Two standard errors: of 0.04 and 0.03, 0.071.
  EXPECT_EQ(shortest_of({{0.85, 0.04}, {0.8, 0.03}}), 0u);
  EXPECT_EQ(shortest_of({{0.86, 0.04}, {0.8, 0.03}}), 1u);
  EXPECT_EQ(shortest_of({{0.95, 0.02}, {0.85, 0.04}, {0.8, 0.03}}), 1u) << "the first one is longer";
}

TEST(StepChoice, WhatIsUnknownIsNotTakenUnlessAllAre) {
  EXPECT_EQ(shortest_of({{kUnknown, 0}, {1, 0.5}}), 1u);
  EXPECT_EQ(shortest_of({{kUnknown, 0}, {kUnknown, 0}}), 0u);
}

// Measurements of others, left by another run's question, say nothing against the best prediction.
TEST(StepChoice, APredictionStandsWhereItsStepIsUnknown) {
  std::vector<Proposal> proposals(3);
  const auto chosen = [&](const std::vector<StepRatio>& ratios) {
    return &decide(proposals, ratios) - proposals.data();
  };
  EXPECT_EQ(chosen({}), 0);
  EXPECT_EQ(chosen({kUnknownStep, {0.5, 0}, {0.6, 0}}), 0);
  EXPECT_EQ(chosen({{0.7, 0}, kUnknownStep, {0.6, 0}}), 2);
}

TEST(StepChoice, ThoseThatMayBeTheShortestAreMeasuredAgainUnlessTheyAreKnownWell) {
  EXPECT_EQ(worth_measuring_again({{0.83, 0.02}, {0.8, 0.02}, {0.9, 0.02}}), (Indices{0, 1}));
  EXPECT_EQ(worth_measuring_again({{0.83, 0.005}, {0.8, 0.02}}), Indices{1}) << "known well";
  // Three standard errors: of 0.06 and 0.02, 0.134.
  EXPECT_EQ(worth_measuring_again({{0.8, 0.02}, {0.9, 0.06}, {0.91, 0.06}}), (Indices{0, 1}));
  EXPECT_EQ(worth_measuring_again({{0.8, 0.001}, {0.9, 0.001}, {kUnknown, 0}}), Indices{});
}

}  // namespace
}  // namespace l2l::runtime
