// Linked with a hand-over that has a bug (mutants.py): succeeds when the exploration finds it, with as few preemptions
// as it takes.
#include <cstdio>

#include "tests/eps/model/explorer.h"

int main() {
  using namespace l2l::eps::model;
  const std::vector<Scenario> scenarios = all_scenarios();
  for (int preemptions = 0; preemptions <= kPreemptions; ++preemptions) {
    for (const Scenario& scenario : scenarios) {
      const Exploration result = explore(scenario, preemptions);
      if (result.violation.empty()) continue;
      std::printf("caught in %s with %d preemptions: %s\n", scenario.name.c_str(), preemptions,
                  result.violation.c_str());
      for (const std::string& line : result.trace) std::printf("  %s\n", line.c_str());
      return 0;
    }
  }
  std::printf("the seeded bug was not found\n");
  return 1;
}
