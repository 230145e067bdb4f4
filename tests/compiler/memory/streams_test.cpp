#include "compiler/memory/streams.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "compiler/memory/planner.h"
#include "l2l/errors.h"
#include "tests/compiler/memory/random_programs.h"
#include "tools/bench/safe_pairs.h"

namespace l2l::compiler::memory {
namespace {

int program_count() { return std::getenv("L2L_LONG_TESTS") ? 1'000'000 : 100'000; }

TEST(Streams, ClocksAndRowsOfAncestorsGiveTheSameSafePairs) {
  Random random(1);
  std::uint64_t safe = 0, pairs = 0;
  for (int i = 0; i < program_count(); ++i) {
    const StreamProgram program = RandomProgram(random, {20, 5, 20, 8, 64}).take();
    const Problem problem = lower(program);
    const AncestorRows rows(program);
    std::uint64_t safe_here = 0;
    for (Index p = 0; p < problem.tensors.size(); ++p) {
      for (Index q = 0; q < problem.tensors.size(); ++q) {
        const bool by_rows = rows.done_before(program.tensors[p], program.tensors[q]);
        ASSERT_EQ(by_rows, done_before(problem, p, q)) << "program " << i << ", tensors " << p << " and " << q;
        safe_here += by_rows;
      }
    }
    pairs += problem.tensors.size() * problem.tensors.size();
    safe += safe_here;
    ASSERT_EQ(count_safe_pairs(problem), safe_here);
    ASSERT_NO_THROW(check(problem)) << i;
  }
  EXPECT_GT(safe, pairs / 12);
  EXPECT_LT(safe, pairs / 2);
}

TEST(Streams, InputsAreNotSafeWithOutputs) {
  StreamProgram program;
  program.ops = {0, 0, 0};
  program.tensors = {{"in", 64, 0, {1}}, {"out", 64, 1, {2}}, {"later", 64, 2, {}}};
  const Problem problem = lower(program);
  EXPECT_EQ(plan(problem).footprint, 128u);
  EXPECT_TRUE(done_before(problem, 0, 2));
  EXPECT_FALSE(done_before(problem, 0, 1));
  EXPECT_FALSE(done_before(problem, 1, 2));
}

TEST(Streams, AnEventMakesMemorySafe) {
  StreamProgram program;
  program.streams = 2;
  program.ops = {0, 1};
  program.tensors = {{"left", 64, 0, {}}, {"right", 64, 1, {}}};
  EXPECT_EQ(plan(lower(program)).footprint, 128u);
  program.events = {{0, 1}};
  EXPECT_EQ(plan(lower(program)).footprint, 64u);
  program.tensors[0].lifelong = true;
  EXPECT_EQ(plan(lower(program)).footprint, 128u);
}

TEST(Streams, Groups) {
  StreamProgram program;
  program.ops = {0, 0};
  program.tensors = {{"a", 10, 0, {1}}, {"b", 10, 0, {1}}};
  program.groups = {{1, 0}};
  const Problem problem = lower(program);
  const Plan found = plan(problem);
  EXPECT_EQ(validate(problem, found), "");
  EXPECT_EQ(found.offsets[0], found.offsets[1] + 10);
}

void expect_refused(const StreamProgram& program, const std::string& message) {
  try {
    check(lower(program));
    ADD_FAILURE() << "accepted instead of: " << message;
  } catch (const BadInput& error) {
    EXPECT_NE(std::string(error.what()).find(message), std::string::npos) << error.what();
  }
}

TEST(Streams, RefusesProgramsThatCannotRun) {
  StreamProgram good;
  good.streams = 2;
  good.ops = {0, 1, 0, 1};
  good.events = {{0, 1}};
  good.tensors = {{"x", 8, 0, {1}}, {"y", 8, 1, {3}}};
  ASSERT_NO_THROW(lower(good));

  StreamProgram program = good;
  program.events = {{2, 1}, {1, 0}};
  expect_refused(program, "waits for itself, through events in a circle");
  program.events = {{1, 1}};
  expect_refused(program, "op 1 waits for itself");
  program.events = {{0, 4}};
  expect_refused(program, "an event from op 0 to op 4, of 4 ops");
  program = good;
  program.events.clear();
  expect_refused(program, "'x' is consumed by op 1, which does not wait for its producer, op 0");
  program = good;
  program.ops[3] = 2;
  expect_refused(program, "op 3 is on stream 2 of 2");
  program = good;
  program.tensors[1].consumers = {9};
  expect_refused(program, "'y' is consumed by op 9, which is not there");
  program = good;
  program.tensors[1].producer = 9;
  expect_refused(program, "'y' is produced by op 9, which is not there");
  program = good;
  program.groups = {{7}};
  expect_refused(program, "a group names tensor 7");
}

}  // namespace
}  // namespace l2l::compiler::memory
