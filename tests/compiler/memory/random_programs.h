// Random programs of streams that lower() accepts.
#pragma once

#include <algorithm>

#include "compiler/memory/streams.h"
#include "tests/compiler/memory/random_problems.h"

namespace l2l::compiler::memory {

// Whether tensor p is dead before tensor q is written (problem.h).
inline bool done_before(const Problem& problem, Index p, Index q) {
  const auto end = problem.end_of(p), begin = problem.begin_of(q);
  return std::equal(end.begin(), end.end(), begin.begin(), [](Time done, Time starts) { return done <= starts; });
}

struct ProgramShape {
  std::size_t ops = 12, streams = 4, tensors = 12;
  int events = 4;  // at most, beside those that tensors need
  Bytes largest = 64;
};

class RandomProgram {
 public:
  RandomProgram(Random& random, const ProgramShape& shape) : random_(random), shape_(shape) {
    const std::size_t ops = 1 + random() % shape.ops;
    program_.streams = 1 + random() % shape.streams;
    program_.alignment = Bytes{1} << random() % 3;
    for (std::size_t op = 0; op < ops; ++op) program_.ops.push_back(random() % program_.streams);
    reset_ancestors();
    for (auto left = random() % static_cast<std::uint64_t>(shape.events + 1); left > 0; --left) {
      const auto a = static_cast<Index>(random() % ops), b = static_cast<Index>(random() % ops);
      if (a < b) add_event(a, b);
    }
    for (std::size_t left = random() % (shape.tensors + 1); left > 0; --left) add_tensor();
  }

  StreamProgram take() { return std::move(program_); }

 private:
  // Of the ops before each in the list; ops follow the list, events point forward in it.
  void reset_ancestors() {
    ancestors_.assign(program_.ops.size(), 0);
    for (Index b = 0; b < program_.ops.size(); ++b) {
      const auto follow = [&](Index a) { ancestors_[b] |= ancestors_[a] | std::uint64_t{1} << a; };
      for (Index a = 0; a < b; ++a) {
        if (program_.ops[a] == program_.ops[b]) follow(a);
      }
      for (const Event& event : program_.events) {
        if (event.before == b) follow(event.after);
      }
    }
  }

  bool before(Index a, Index b) const { return ancestors_[b] >> a & 1; }

  void add_event(Index a, Index b) {
    program_.events.push_back({a, b});
    reset_ancestors();
  }

  void add_tensor() {
    StreamTensor tensor{"t" + std::to_string(program_.tensors.size()), 1 + random_() % shape_.largest};
    tensor.producer = static_cast<Index>(random_() % program_.ops.size());
    const std::size_t later = program_.ops.size() - tensor.producer - 1;
    for (auto left = later == 0 ? 0 : random_() % 4; left > 0; --left) {
      const auto op = static_cast<Index>(tensor.producer + 1 + random_() % later);
      if (!before(tensor.producer, op)) {
        if (random_() % 2) continue;
        add_event(tensor.producer, op);
      }
      tensor.consumers.push_back(op);
    }
    tensor.lifelong = random_() % 16 == 0;
    program_.tensors.push_back(std::move(tensor));
  }

  Random& random_;
  const ProgramShape shape_;
  StreamProgram program_;
  std::vector<std::uint64_t> ancestors_;
};

}  // namespace l2l::compiler::memory
