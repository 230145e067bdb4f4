// The hand-over under every schedule of the scenarios with up to three preemptions.
#include <gtest/gtest.h>

#include <cstdio>

#include "tests/eps/model/explorer.h"

namespace l2l::eps::model {
namespace {

class HandOverModel : public ::testing::TestWithParam<Scenario> {
 protected:
  void expect_lawful(int preemptions, const char* bound) {
    const Exploration result = explore(GetParam(), preemptions);
    std::printf("%s, %s: %.3g schedules, %zu states\n", GetParam().name.c_str(), bound, result.schedules,
                result.states);
    EXPECT_EQ(result.violation, "");
    for (const std::string& line : result.trace) std::printf("  %s\n", line.c_str());
    EXPECT_GT(result.schedules, 100);
  }
};

TEST_P(HandOverModel, KeepsTheLawsWithThreePreemptions) { expect_lawful(kPreemptions, "3 preemptions"); }

TEST_P(HandOverModel, KeepsTheLawsInEverySchedule) { expect_lawful(kAnyNumber, "any"); }

INSTANTIATE_TEST_SUITE_P(All, HandOverModel, ::testing::ValuesIn(all_scenarios()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace l2l::eps::model
