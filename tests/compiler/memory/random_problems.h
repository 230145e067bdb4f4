// Random problems, and a second definition of a correct plan, byte by byte and moment by moment.
#pragma once

#include <algorithm>
#include <numeric>
#include <random>

#include "compiler/memory/greedy.h"

namespace l2l::compiler::memory {

using Random = std::mt19937_64;

inline std::int64_t uniform(Random& random, std::int64_t low, std::int64_t high) {
  return std::uniform_int_distribution<std::int64_t>(low, high)(random);
}

struct Interval {
  const char* name;
  Time begin, end;
  Bytes size;
};
inline Problem intervals(Bytes alignment, std::initializer_list<Interval> list) {
  Problem problem;
  problem.alignment = alignment;
  for (const Interval& i : list) problem.add({i.name, i.size}, i.begin, i.end);
  return problem;
}

inline Problem random_problem(Random& random, std::int64_t tensors, std::int64_t times, std::int64_t largest,
                              Bytes alignment) {
  Problem problem;
  problem.alignment = alignment;
  for (std::int64_t i = 0; i < tensors; ++i) {
    const std::int64_t begin = uniform(random, 0, times - 1);
    const auto size = static_cast<Bytes>(uniform(random, 0, largest));
    problem.add({"t" + std::to_string(i), size}, begin, uniform(random, begin, times));
  }
  return problem;
}

// Clocks of several streams: entries of `begin` lie around a common time, as synchronisation makes them.
inline Problem random_streams(Random& random, std::int64_t tensors, std::size_t streams, std::int64_t times,
                              std::int64_t largest, Bytes alignment) {
  Problem problem;
  problem.streams = streams;
  problem.alignment = alignment;
  for (std::int64_t i = 0; i < tensors; ++i) {
    problem.tensors.push_back({"t" + std::to_string(i), static_cast<Bytes>(uniform(random, 0, largest))});
    const std::int64_t around = uniform(random, 0, times), length = uniform(random, 0, times / 3);
    for (std::size_t s = 0; s < streams; ++s) {
      const std::int64_t begin = std::max<std::int64_t>(0, around - uniform(random, 0, times / 4));
      problem.begin.push_back(begin);
      problem.end.push_back(begin + uniform(random, 0, length));
    }
  }
  return problem;
}

// Two phases on two streams, with `count` tensors each: all of the first are done before any of the second begins, and
// within a phase all are alive at once.
inline Problem two_phases(Random& random, std::int64_t count) {
  Problem problem;
  problem.streams = 2;
  problem.alignment = 1;
  for (const Time phase : {0, 100}) {
    for (std::int64_t i = 0; i < count; ++i) {
      problem.tensors.push_back({"t" + std::to_string(problem.tensors.size()), 1 + random() % 1000});
      for (int stream = 0; stream < 2; ++stream) {
        problem.begin.push_back(phase + uniform(random, 0, 49));
        problem.end.push_back(phase + uniform(random, 50, 99));
      }
    }
  }
  return problem;
}

// Some of its tensors, each in one group.
inline void add_random_groups(Random& random, Problem& problem) {
  std::vector<Index> tensors(problem.tensors.size());
  std::iota(tensors.begin(), tensors.end(), Index{0});
  std::shuffle(tensors.begin(), tensors.end(), random);
  for (std::size_t at = 0; at < tensors.size() && random() % 4 != 0;) {
    const std::size_t length = std::min<std::size_t>(1 + random() % 4, tensors.size() - at);
    problem.groups.emplace_back(tensors.begin() + static_cast<std::ptrdiff_t>(at),
                                tensors.begin() + static_cast<std::ptrdiff_t>(at + length));
    at += length;
  }
}

// By one greedy order alone.
inline Plan quick_plan(const Problem& problem) {
  const Blocks blocks(problem);
  return blocks.plan(place(blocks, {}).offsets);
}

// The largest sum of sizes alive at one moment of one stream; it is reached where a tensor begins.
inline Bytes live_load(const Problem& problem) {
  Bytes largest = 0;
  for (std::size_t s = 0; s < problem.streams; ++s) {
    for (Index at = 0; at < problem.tensors.size(); ++at) {
      const Time time = problem.begin_of(at)[s];
      Bytes sum = 0;
      for (Index t = 0; t < problem.tensors.size(); ++t) {
        if (problem.begin_of(t)[s] <= time && time < problem.end_of(t)[s]) sum += problem.tensors[t].size;
      }
      largest = std::max(largest, sum);
    }
  }
  return largest;
}

// Whether the definition lets two tensors share memory.
inline bool may_share(const Problem& problem, Index a, Index b) {
  bool a_first = true, b_first = true, a_lives = false, b_lives = false;
  for (std::size_t s = 0; s < problem.streams; ++s) {
    const Time begin_a = problem.begin_of(a)[s], end_a = problem.end_of(a)[s];
    const Time begin_b = problem.begin_of(b)[s], end_b = problem.end_of(b)[s];
    a_first = a_first && end_a <= begin_b;
    b_first = b_first && end_b <= begin_a;
    a_lives = a_lives || begin_a < end_a;
    b_lives = b_lives || begin_b < end_b;
  }
  return a_first || b_first || !a_lives || !b_lives;
}

// Whether a plan is correct, pair by pair and byte by byte.
inline bool right(const Problem& problem, const Plan& plan) {
  Bytes highest = 0;
  std::vector<bool> follows(problem.tensors.size(), false);
  for (const auto& group : problem.groups) {
    for (std::size_t k = 1; k < group.size(); ++k) {
      follows[group[k]] = true;
      if (plan.offsets[group[k]] != plan.offsets[group[k - 1]] + problem.tensors[group[k - 1]].size) return false;
    }
  }
  for (Index i = 0; i < problem.tensors.size(); ++i) {
    const Tensor& tensor = problem.tensors[i];
    if (!follows[i] && plan.offsets[i] % problem.alignment != 0) return false;
    if (tensor.offset && plan.offsets[i] != *tensor.offset) return false;
    highest = std::max(highest, plan.offsets[i] + tensor.size);
    for (Index j = 0; j < i; ++j) {
      if (may_share(problem, i, j)) continue;
      for (Bytes byte = plan.offsets[i]; byte < plan.offsets[i] + tensor.size; ++byte) {
        if (plan.offsets[j] <= byte && byte < plan.offsets[j] + problem.tensors[j].size) return false;
      }
    }
  }
  return plan.footprint == highest;
}

}  // namespace l2l::compiler::memory
