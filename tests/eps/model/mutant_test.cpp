// The hand-over with the seeded bug that the argument names (mutants.py): succeeds when the exploration finds it, with
// as few preemptions as it takes.
#include <cstdio>

#include "tests/eps/model/explorer.h"
#include "tests/eps/model/seeded_bug.h"

namespace {

std::string_view chosen;

}  // namespace

std::string_view l2l::eps::seeded_bug() { return chosen; }

int main(int argc, char** argv) {
  using namespace l2l::eps::model;
  if (argc != 2) return 2;
  chosen = argv[1];
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
