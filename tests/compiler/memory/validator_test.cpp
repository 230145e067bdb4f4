#include <gtest/gtest.h>

#include <set>

#include "compiler/memory/planner.h"
#include "tests/compiler/memory/random_problems.h"

namespace l2l::compiler::memory {
namespace {

TEST(Validator, AgreesWithAMapOfBytes) {
  Random random(4);
  int good = 0, bad = 0;
  for (int i = 0; i < 100000; ++i) {
    const Bytes alignment = Bytes{1} << uniform(random, 0, 1);
    Problem problem = i % 2 ? random_problem(random, uniform(random, 1, 6), 6, 5, alignment)
                            : random_streams(random, uniform(random, 1, 6), 1 + random() % 3, 9, 5, alignment);
    if (i % 3 == 0) add_random_groups(random, problem);
    Plan candidate = quick_plan(problem);
    for (int change = static_cast<int>(uniform(random, 0, 3)); change > 0; --change) {
      candidate.offsets[random() % candidate.offsets.size()] = static_cast<Bytes>(uniform(random, 0, 12));
    }
    if (random() % 8 == 0) problem.tensors[random() % problem.tensors.size()].offset = random() % 4 * alignment;
    candidate.footprint = 0;
    for (std::size_t t = 0; t < candidate.offsets.size(); ++t) {
      candidate.footprint = std::max(candidate.footprint, candidate.offsets[t] + problem.tensors[t].size);
    }
    if (random() % 16 == 0) candidate.footprint += static_cast<Bytes>(uniform(random, 0, 1));
    const bool expected = right(problem, candidate);
    ASSERT_EQ(validate(problem, candidate).empty(), expected) << validate(problem, candidate);
    ++(expected ? good : bad);
  }
  EXPECT_GT(good, 20000);
  EXPECT_GT(bad, 20000);
}

TEST(Validator, NamesWhatIsWrong) {
  Problem problem = intervals(64, {{"query", 0, 2, 64}, {"key", 1, 3, 64}});
  EXPECT_EQ(validate(problem, {{0, 64}, 128}), "");
  const std::string overlap = validate(problem, {{0, 0}, 64});
  EXPECT_NE(overlap.find("'key'"), std::string::npos) << overlap;
  EXPECT_NE(overlap.find("overlaps 'query'"), std::string::npos) << overlap;
  EXPECT_NE(validate(problem, {{0, 65}, 129}).find("'key'"), std::string::npos);
  EXPECT_NE(validate(problem, {{0, 65}, 129}).find("not aligned to 64"), std::string::npos);
  EXPECT_NE(validate(problem, {{0, 64}, 192}).find("the footprint is 192, the highest end 128"), std::string::npos);
  EXPECT_NE(validate(problem, {{0}, 64}).find("1 offsets for 2 tensors"), std::string::npos);
  EXPECT_NE(validate(problem, {{0, ~Bytes{63}}, 0}).find("beyond 64 bits"), std::string::npos);
  problem.tensors[1].offset = 128;
  EXPECT_NE(validate(problem, {{0, 64}, 128}).find("is pinned at 128"), std::string::npos);
  problem.tensors[1].offset.reset();
  problem.groups = {{1, 0}};
  EXPECT_EQ(validate(problem, {{64, 0}, 128}), "");
  const std::string apart = validate(problem, {{128, 0}, 192});
  EXPECT_NE(apart.find("'query'"), std::string::npos) << apart;
  EXPECT_NE(apart.find("does not follow 'key'"), std::string::npos) << apart;
}

TEST(Validator, FindsTheTwoThatClash) {
  const Problem problems[] = {intervals(1, {{"a", 0, 2, 8}, {"b", 2, 4, 8}, {"c", 3, 5, 8}}),
                              {2, 1, {{"a", 8}, {"b", 8}, {"c", 8}}, {0, 0, 2, 2, 3, 0}, {2, 2, 4, 4, 5, 5}, {}}};
  for (const Problem& problem : problems) {
    EXPECT_FALSE(find_clash(problem, {{0, 0, 8}, 16}));
    const std::optional<Clash> clash = find_clash(problem, {{0, 7, 14}, 22});
    ASSERT_TRUE(clash);
    EXPECT_EQ((std::set{clash->tensor, clash->other}), (std::set<Index>{1, 2}));
  }
}

TEST(Validator, TakesAddressesOfAllSixtyFourBits) {
  Problem problem{2, 64, {{"low", 64}, {"high", 64}}, {0, 0, 0, 0}, {1, 1, 1, 1}, {}};
  EXPECT_EQ(validate(problem, {{0, Bytes{1} << 63}, (Bytes{1} << 63) + 64}), "");
  EXPECT_NE(validate(problem, {{Bytes{1} << 63, Bytes{1} << 63}, (Bytes{1} << 63) + 64}), "");
}

}  // namespace
}  // namespace l2l::compiler::memory
