#include "compiler/remat/verifier.h"

#include <map>
#include <optional>
#include <vector>

#include "compiler/autodiff/differentiate.h"
#include "compiler/ir/op_table.h"

namespace l2l::compiler::remat {
namespace {

using Symbol = std::size_t;
using Offsets = std::map<Bytes, Symbol>;

// Expressions, each stored once: equal computations have equal symbols. Thread-bound.
class Symbols {
 public:
  // The content of a bound range before a program runs.
  Symbol given(Region region, Bytes offset) { return known({OpKind::count, {}, {}, region, offset, 0}); }
  // Output `position` of `op` on `inputs`; for an accumulating output the last input is its previous content.
  Symbol result(const Op& op, std::vector<Symbol> inputs, std::size_t position) {
    return known({op.kind, op.attributes, std::move(inputs), Region::count, 0, position});
  }

 private:
  struct Term {
    OpKind kind;
    Attributes attributes;
    std::vector<Symbol> inputs;
    Region region;
    Bytes offset;
    std::size_t position;
    bool operator==(const Term&) const = default;
  };

  Symbol known(Term term) {
    for (Symbol symbol = terms_.size(); symbol-- > 0;) {
      if (terms_[symbol] == term) return symbol;
    }
    terms_.push_back(std::move(term));
    return terms_.size() - 1;
  }

  std::vector<Term> terms_;
};

// The symbols of a graph's values, as its single assignments define them. Memory plays no part.
class Definition {
 public:
  Definition(Symbols& symbols, const Graph& graph) : symbols_(symbols), graph_(graph), of_(graph.values.size()) {
    for (const Op& op : graph.ops) run(op);
  }

  Offsets in(Region region) const {
    Offsets found;
    for (std::size_t i = 0; i < of_.size(); ++i) {
      if (graph_.values[i].region == region && of_[i]) found[graph_.values[i].offset] = *of_[i];
    }
    return found;
  }

 private:
  Symbol read(ValueId id) {
    std::optional<Symbol>& symbol = of_[static_cast<std::size_t>(id)];
    if (!symbol) symbol = symbols_.given(graph_.value(id).region, graph_.value(id).offset);
    return *symbol;
  }

  void run(const Op& op) {
    std::vector<Symbol> inputs;
    for (const ValueId id : op.inputs) inputs.push_back(read(id));
    for (std::size_t i = 0; i < op.outputs.size(); ++i) {
      std::vector<Symbol> all = inputs;
      if (accumulates(op, i)) all.push_back(read(op.outputs[i]));
      of_[static_cast<std::size_t>(op.outputs[i])] = symbols_.result(op, std::move(all), i);
    }
  }

  Symbols& symbols_;
  const Graph& graph_;
  std::vector<std::optional<Symbol>> of_;
};

// The ranges of one region.
class Memory {
 public:
  void write(Bytes begin, Bytes bytes, Symbol symbol) {
    auto next = ranges_.lower_bound(begin);
    if (next != ranges_.begin() && std::prev(next)->second.end > begin) --next;
    while (next != ranges_.end() && next->first < begin + bytes) next = ranges_.erase(next);
    ranges_[begin] = {begin + bytes, symbol};
  }
  std::optional<Symbol> read(Bytes begin, Bytes bytes) const {
    const auto range = ranges_.find(begin);
    if (range == ranges_.end() || range->second.end != begin + bytes) return std::nullopt;
    return range->second.symbol;
  }
  Offsets all() const {
    Offsets found;
    for (const auto& [begin, range] : ranges_) found[begin] = range.symbol;
    return found;
  }

 private:
  struct Range {
    Bytes end;
    Symbol symbol;
  };
  std::map<Bytes, Range> ranges_;
};

// Whether memory of a region is defined before the program runs.
bool is_given(Region region) {
  return region != Region::scratch && region != Region::saved && region != Region::output &&
         region != Region::input_gradient && region != Region::loss;
}

// Executes programs launch by launch on memory.
class Execution {
 public:
  explicit Execution(Symbols& symbols) : symbols_(symbols) {}

  // Scratch is undefined at first; other regions hold what the last program left there. Returns what is wrong.
  std::string run(const Program& program) {
    regions_[Region::scratch] = {};
    for (std::size_t i = 0; i < program.launches.size(); ++i) {
      const std::string wrong = run(program, program.launches[i]);
      if (!wrong.empty()) return program.graph.name + ": op " + std::to_string(i) + ", " + wrong;
    }
    return "";
  }
  Offsets in(Region region) { return regions_[region].all(); }

 private:
  std::string run(const Program& program, const Launch& launch) {
    const Op& op = launch.op;
    std::vector<Symbol> inputs;
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
      const Value& value = program.graph.value(op.inputs[i]);
      const std::optional<Symbol> symbol = read(launch.operands[i], value.bytes());
      if (!symbol) return std::string(name_of(op.kind)) + ": " + value.name + " is not there any more";
      inputs.push_back(*symbol);
    }
    if (launch.workspace_bytes > 0) {
      regions_[Region::scratch].write(launch.workspace.offset, launch.workspace_bytes,
                                      symbols_.given(Region::count, 0));
    }
    std::vector<Symbol> results;
    for (std::size_t i = 0; i < op.outputs.size(); ++i) {
      std::vector<Symbol> all = inputs;
      if (accumulates(op, i)) all.push_back(*read(output(launch, i), bytes(program, op, i)));
      results.push_back(symbols_.result(op, std::move(all), i));
    }
    for (std::size_t i = 0; i < op.outputs.size(); ++i) {
      regions_[output(launch, i).region].write(output(launch, i).offset, bytes(program, op, i), results[i]);
    }
    return "";
  }

  static const Operand& output(const Launch& launch, std::size_t i) {
    return launch.operands[launch.op.inputs.size() + i];
  }
  static Bytes bytes(const Program& program, const Op& op, std::size_t i) {
    return program.graph.value(op.outputs[i]).bytes();
  }

  std::optional<Symbol> read(const Operand& operand, Bytes bytes) {
    Memory& memory = regions_[operand.region];
    if (const std::optional<Symbol> symbol = memory.read(operand.offset, bytes)) return symbol;
    if (!is_given(operand.region)) return std::nullopt;
    const Symbol symbol = symbols_.given(operand.region, operand.offset);
    memory.write(operand.offset, bytes, symbol);
    return symbol;
  }

  Symbols& symbols_;
  std::map<Region, Memory> regions_;
};

}  // namespace

std::string verify(const Graph& layer, const Program& forward, const Program& backward) {
  Symbols symbols;
  const Graph plain = differentiate(layer);
  const Definition defined_forward(symbols, layer), defined_backward(symbols, plain);
  Execution execution(symbols);
  for (const Program* const program : {&forward, &backward}) {
    const std::string wrong = execution.run(*program);
    if (!wrong.empty()) return wrong;
  }
  if (execution.in(Region::output) != defined_forward.in(Region::output))
    return forward.graph.name + ": another output";
  for (const Region region : {Region::gradients, Region::input_gradient, Region::loss}) {
    if (execution.in(region) == defined_backward.in(region)) continue;
    return backward.graph.name + ": other " + std::string(name_of(region));
  }
  return "";
}

}  // namespace l2l::compiler::remat
