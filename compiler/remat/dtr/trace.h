// A recorded program, as docs/formats.md describes (Operator traces), with names resolved: tensors are counted in the
// order in which ops make them.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "compiler/remat/dtr/graph.h"

namespace l2l::compiler::remat::dtr {

struct Trace {
  enum class Action : std::uint8_t { run, pin, retain, release };
  struct Step {
    Action action;
    Index index;  // of the op to run, else of a tensor
  };

  std::vector<Op> ops;
  std::vector<Step> steps;
  Nanoseconds time = 0;  // of all ops, each once
};

// Throws BadInput naming file, line, field and reason; at the first line that shows it, in memory and time in
// proportion to the file.
Trace read_trace(const std::string& file);
// The same of a stream that is called `name` in messages.
Trace read_trace(std::istream& stream, const std::string& name);

}  // namespace l2l::compiler::remat::dtr
