#include <gtest/gtest.h>

#include "compiler/memory/planner.h"
#include "l2l/errors.h"
#include "tests/compiler/memory/random_problems.h"

namespace l2l::compiler::memory {
namespace {

// The message, or an empty string when it is accepted.
std::string refusal(const Problem& problem) {
  try {
    check(problem);
    return "";
  } catch (const BadInput& error) {
    return error.what();
  }
}

void expect_refused(const Problem& problem, const std::string& tensor, const std::string& reason) {
  const std::string message = refusal(problem);
  EXPECT_NE(message.find(reason), std::string::npos) << message;
  EXPECT_NE(message.find(tensor), std::string::npos) << message;
}

TEST(Check, AcceptsWhatIsRight) {
  Random random(1);
  for (int i = 0; i < 1000; ++i) {
    Problem problem = random_streams(random, 8, 1 + random() % 3, 20, 100, 8);
    add_random_groups(random, problem);
    ASSERT_EQ(refusal(problem), "");
  }
}

TEST(Check, RefusesWhatCannotBeCounted) {
  expect_refused(intervals(3, {{"a", 0, 1, 8}}), "", "alignment 3 is not a power of two");
  expect_refused(intervals(0, {{"a", 0, 1, 8}}), "", "alignment 0 is not");
  expect_refused(intervals(1, {{"a", 0, 1, ~Bytes{0} - 100}, {"b", 0, 1, 200}}), "'a'", "beyond 2^62");
  const Bytes half = (Bytes{1} << 61) + 1;
  expect_refused(intervals(1, {{"a", 0, 1, half}, {"b", 4, 5, half}}), "'b'", "the sum of all sizes");
  EXPECT_EQ(refusal(intervals(1, {{"a", 0, 1, half}, {"b", 4, 5, half - 3}})), "");
}

TEST(Check, RefusesClocksThatDoNotFit) {
  expect_refused(intervals(1, {{"a", 0, 1, 8}, {"b", 5, 4, 8}}), "'b'", "ends at 4, before it begins at 5");
  Problem problem{3, 1, {{"a", 8}}, {1, 2, 3}, {1, 1, 4}, {}};
  expect_refused(problem, "'a'", "before it begins at 2 (stream 1)");
  problem.end = {1, 2};
  expect_refused(problem, "", "3 and 2 clock entries");
  problem.streams = 0;
  expect_refused(problem, "", "clock entries");
}

TEST(Check, RefusesGroupsThatContradict) {
  Problem problem = intervals(8, {{"a", 0, 9, 8}, {"b", 0, 9, 4}, {"c", 0, 9, 8}, {"d", 0, 1, 8}});
  problem.groups = {{0, 1}, {1, 2}};
  expect_refused(problem, "'b'", "in two groups");
  problem.groups = {{0, 1, 0}};
  expect_refused(problem, "'a'", "in two groups, or twice in one");
  problem.groups = {{0, 9}};
  expect_refused(problem, "9", "a group names tensor 9");
  problem.groups = {{0, 1, 2}};
  problem.tensors[0].offset = 16;
  problem.tensors[2].offset = 32;
  expect_refused(problem, "'c'", "is pinned at 32, not where its group puts it");
  problem.tensors[2].offset = 28;
  EXPECT_EQ(refusal(problem), "");
  problem.tensors[0].offset = {};
  problem.tensors[2].offset = 8;
  expect_refused(problem, "'c'", "not where its group puts it");
  problem.tensors[2].offset = 16;
  expect_refused(problem, "'c'", "not a multiple of 8, begins its group");
}

TEST(Check, RefusesPinnedTensorsThatClash) {
  Problem problem = intervals(8, {{"a", 0, 9, 8}, {"b", 5, 9, 4}, {"c", 0, 5, 8}, {"d", 0, 9, 8}});
  problem.tensors[1].offset = 8;
  problem.tensors[2].offset = 8;
  EXPECT_EQ(refusal(problem), "");
  problem.tensors[0].offset = 0;
  EXPECT_EQ(refusal(problem), "");
  problem.groups = {{0, 3}};
  expect_refused(problem, "'d'", "overlaps");
  problem.groups = {};
  problem.tensors[3].offset = 4;
  expect_refused(problem, "'d'", "4, not a multiple of 8");
}

}  // namespace
}  // namespace l2l::compiler::memory
