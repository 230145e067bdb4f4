// The backward graph of a layer while it grows: what a vector-Jacobian product may read and add.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/ir/graph.h"

namespace l2l::compiler {

// Value ids of the forward graph stay valid here. Thread-bound.
class Backward {
 public:
  // Throws BadInput unless the graph ends in one loss, or in outputs.
  explicit Backward(const Graph& forward);

  // Appends the vector-Jacobian product of every forward op that the result depends on, last op first.
  void differentiate();
  void differentiate(const Op& op);
  // The results of forward ops that the backward ops read.
  std::vector<ValueId> values_read() const;
  // Puts the forward ops that make what the backward ops read, and `saved` has not, before them.
  void recompute(const std::vector<ValueId>& saved);
  // For a graph that runs from its outputs to its inputs: exchanges the two regions.
  void exchange_ends();
  // Places the gradients of inputs.
  Graph finish();

  // For vector-Jacobian products.
  bool is_weight(ValueId id) const { return graph_.value(id).region == Region::weights; }
  // Complete when the op that made `id` is reached, because all its consumers come later in the forward graph.
  ValueId gradient(ValueId id) const { return gradients_[static_cast<std::size_t>(id)]; }
  bool has_gradient(ValueId id) const { return gradient(id) != kNone; }
  // A new scratch value for a share of the gradient of `id`.
  ValueId like(ValueId id);
  // Where the gradient of a weight accumulates. Throws BadInput when `id` is none.
  ValueId accumulator(ValueId id);
  void append(OpKind kind, std::vector<ValueId> inputs, std::vector<ValueId> outputs, Attributes attributes);
  // Adds `gradient` to that of `id`, which must not be a weight.
  void contribute(ValueId id, ValueId gradient);
  // The gradient of `id` so far, for an op that adds its own share to it and contributes the sum. Nothing: none yet.
  std::optional<ValueId> take(ValueId id);
  [[noreturn]] void refuse(const Op& op, const std::string& why) const;

 private:
  static constexpr ValueId kNone = -1;

  std::vector<ValueId> values_in(Region region) const;
  ValueId add_value(Value value);
  void seed();
  void seed_output(ValueId output);
  DType gradient_dtype(ValueId output) const;
  void place_input_gradient(ValueId input);
  void recompute(ValueId id, std::vector<Op>& ops);
  Op again(const Op& op);

  const Graph& forward_;
  Graph graph_;                     // forward's values, then the gradients; the backward ops only
  std::vector<ValueId> gradients_;  // per forward value: its gradient so far, or its accumulator
  std::vector<bool> there_;         // per forward value: saved, bound, or recomputed before the ops to come
};

// Moves `saved` to Region::saved, one behind the other. Throws BadInput unless each is a result of an op of `graph`,
// in scratch.
void place_saved(Graph& graph, const std::vector<ValueId>& saved);

}  // namespace l2l::compiler
