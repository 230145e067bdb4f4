// Problems whose smallest footprint is known, because they were cut out of a full rectangle of time and memory.
#pragma once

#include "tests/compiler/memory/random_problems.h"

namespace l2l::compiler::memory {

struct Rectangle {
  Time begin, end;
  Bytes low, high;
};

// Four around a fifth: no straight cut goes through.
inline void pinwheel(Random& random, const Rectangle& r, std::vector<Rectangle>& into) {
  const auto time = [&](int fifths) {
    return r.begin + (r.end - r.begin) * fifths / 5 + uniform(random, 0, (r.end - r.begin) / 5);
  };
  const auto byte = [&](int fifths) {
    return r.low + (r.high - r.low) * static_cast<Bytes>(fifths) / 5 +
           static_cast<Bytes>(uniform(random, 0, static_cast<std::int64_t>((r.high - r.low) / 5)));
  };
  const Time t1 = time(1), t2 = time(3);
  const Bytes b1 = byte(1), b2 = byte(3);
  for (const Rectangle& part :
       {Rectangle{r.begin, t2, r.low, b1}, Rectangle{t2, r.end, r.low, b2}, Rectangle{t1, r.end, b2, r.high},
        Rectangle{r.begin, t1, b1, r.high}, Rectangle{t1, t2, b1, b2}}) {
    into.push_back(part);
  }
}

inline void cut_in_two(Random& random, const Rectangle& r, std::vector<Rectangle>& into) {
  Rectangle first = r, second = r;
  if (random() % 2 == 0) {
    first.end = second.begin = uniform(random, r.begin + 1, r.end - 1);
  } else {
    first.high = second.low = static_cast<Bytes>(
        uniform(random, static_cast<std::int64_t>(r.low) + 1, static_cast<std::int64_t>(r.high) - 1));
  }
  into.push_back(first);
  into.push_back(second);
}

// About `count` rectangles; of all cuts, `wheels` in a hundred are pinwheels.
inline std::vector<Rectangle> cut(Random& random, Rectangle whole, std::size_t count, std::uint64_t wheels) {
  std::vector<Rectangle> parts{whole};
  while (parts.size() < count) {
    std::size_t k = random() % parts.size();
    for (int tries = 0; tries < 3; ++tries) {  // rather the larger
      const std::size_t other = random() % parts.size();
      const auto area = [](const Rectangle& r) {
        return static_cast<double>(r.end - r.begin) * static_cast<double>(r.high - r.low);
      };
      if (area(parts[other]) > area(parts[k])) k = other;
    }
    const Rectangle its = parts[k];
    if (its.end - its.begin < 30 || its.high - its.low < 30) continue;
    parts[k] = parts.back();
    parts.pop_back();
    random() % 100 < wheels ? pinwheel(random, its, parts) : cut_in_two(random, its, parts);
  }
  return parts;
}

inline constexpr Bytes kKnownOptimum = 1 << 20;

// Streams that never wait for each other, each with a rectangle of its own.
inline Problem known_optimum(Random& random, std::size_t streams, std::size_t count, std::uint64_t wheels) {
  Problem problem;
  problem.streams = streams;
  problem.alignment = 1;
  for (std::size_t stream = 0; stream < streams; ++stream) {
    std::vector<Rectangle> parts = cut(random, {1, 1 << 20, 0, kKnownOptimum / streams}, count / streams, wheels);
    std::shuffle(parts.begin(), parts.end(), random);
    for (const Rectangle& part : parts) {
      problem.tensors.push_back({"t" + std::to_string(problem.tensors.size()), part.high - part.low, {}});
      for (std::size_t s = 0; s < streams; ++s) {
        problem.begin.push_back(s == stream ? part.begin : 0);
        problem.end.push_back(s == stream ? part.end : 0);
      }
    }
  }
  return problem;
}

}  // namespace l2l::compiler::memory
