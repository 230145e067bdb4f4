// A plain second implementation of dynamic tensor rematerialization, from its description alone (names, sets and
// recursion; nothing is cached). It includes no header of the library.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/compiler/remat/dtr/random_program.h"

namespace naive {

enum class Heuristic : std::uint8_t { dtr, dtr_eq, local, lru, size, msps };
enum class Unreferenced : std::uint8_t { keep, evict, banish };

struct Setting {
  Heuristic heuristic;
  Unreferenced unreferenced;
  std::int64_t budget;          // 0: none
  std::int64_t repeated_limit;  // ns
};

struct Course {
  std::vector<std::string> events;  // "run 3", "again 3", "evict 5", "release 5", "banish 5", "pin 5"
  std::int64_t clock = 1, peak = 0;
  std::string failure;  // or "out of memory", "thrashing"
};

Course run(const l2l::compiler::remat::dtr::Program& program, const Setting& setting);

}  // namespace naive
