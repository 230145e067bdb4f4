// Recorded programs (docs/formats.md, Operator traces).
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "compiler/remat/dtr/graph.h"

namespace l2l::compiler::remat::dtr {

// Tensors are numbered in the order in which ops make them.
struct Trace {
  enum class Action : std::uint8_t { run, pin, retain, release };
  struct Step {
    Action action;
    Index index;  // of the op to run, else of a tensor
  };

  std::vector<Op> ops;
  std::vector<Step> steps;
  Time time = 0;  // of all ops, each counted once
};

// Throws BadInput naming file, line, field and reason, at the first invalid line. Memory and time are in proportion to
// the file.
Trace read_trace(const std::string& file);
// `name` stands for the file in messages.
Trace read_trace(std::istream& stream, const std::string& name);

}  // namespace l2l::compiler::remat::dtr
