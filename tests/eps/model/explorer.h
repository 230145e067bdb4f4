// Explores the schedules of a scenario with few preemptions, after Musuvathi and Qadeer, "Iterative context bounding
// for systematic testing of multithreaded programs" (PLDI 2007): a thread runs until it must wait, and is preempted at
// most so many times. Most bugs of concurrency need one or two.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tests/eps/model/scenario.h"

namespace l2l::eps::model {

inline constexpr int kPreemptions = 3;
inline constexpr int kAnyNumber = -1;  // of preemptions: every schedule that there is

struct Exploration {
  std::size_t states = 0;          // distinct ones; with a bound, also by who runs and the preemptions so far
  double schedules = 0;            // that lead to an end
  std::string violation;           // of the first schedule that breaks a law; empty: none does
  std::vector<std::string> trace;  // of that schedule, a line per step
};

// Every schedule with at most `preemptions`, equal states once; ends with the first violation. At every step every
// other thread may run instead.
Exploration explore(const Scenario& scenario, int preemptions = kPreemptions);

}  // namespace l2l::eps::model
