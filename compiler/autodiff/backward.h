// A backward graph under construction: what vector-Jacobian products read and append to.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compiler/ir/graph.h"

namespace l2l::compiler {

// Thread-bound. Value ids of the forward graph are valid here, too.
class Backward {
 public:
  // `forward` must outlive it. Throws BadInput unless the graph ends in one loss, or in outputs.
  explicit Backward(const Graph& forward);

  // Appends the vector-Jacobian product of every forward op that the result depends on, last op first.
  void differentiate();
  void differentiate(const Op& op);
  // The results of forward ops that the backward ops read.
  std::vector<ValueId> values_read() const;
  // Inserts the forward ops that recompute what the backward ops read, except for `saved`.
  void recompute(const std::vector<ValueId>& saved);
  // For reversible layers, which run from their outputs to their inputs: exchanges the two regions.
  void exchange_ends();
  // Places the gradients of inputs, and returns the validated graph.
  Graph finish();

  // For vector-Jacobian products.
  const Value& value(ValueId id) const { return graph_.value(id); }
  bool is_weight(ValueId id) const { return value(id).region == Region::weights; }
  // The gradient so far. It is complete when the op that made `id` is reached: all consumers come later in the forward
  // graph.
  ValueId gradient(ValueId id) const { return gradients_[static_cast<std::size_t>(id)]; }
  bool has_gradient(ValueId id) const { return gradient(id) != kNone; }
  // A new scratch value for a contribution to the gradient of `id`.
  ValueId like(ValueId id);
  // Rows of a weight that are trained, and where their gradient accumulates. (Elements, of a vector.)
  struct TrainedRows {
    std::int64_t first, rows;
    ValueId accumulator;
  };
  // Of weight `id`: all its rows, none if it is frozen, or pieces of one that is made of several parameters. Throws
  // BadInput when `id` is not a weight, or when a row is trained in part.
  std::vector<TrainedRows> trained_rows(ValueId id);
  // For weights that are trained as a whole or not at all: nothing when `id` is frozen. Throws BadInput.
  std::optional<ValueId> accumulator(ValueId id);
  // `outputs`, and accumulators of `weights` up to the first that is frozen. Throws BadInput when one behind it is not.
  std::vector<ValueId> with_accumulators(const Op& op, std::vector<ValueId> outputs, std::span<const ValueId> weights);
  // Columns [first, first + count) of a matrix; the matrix itself when these are all.
  ValueId columns(ValueId matrix, std::int64_t first, std::int64_t count, float factor = 1);
  void append(OpKind kind, std::vector<ValueId> inputs, std::vector<ValueId> outputs, Attributes attributes);
  // Adds `gradient` to that of `id`, which must not be a weight.
  void contribute(ValueId id, ValueId gradient);
  // Removes and returns the gradient of `id` so far, for an op that adds to it and contributes the sum. Nothing if
  // there is none yet.
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
  Graph graph_;                                          // the forward values, then the gradients; only backward ops
  std::vector<ValueId> gradients_;                       // per forward value: its gradient so far, or its accumulator
  std::map<ValueId, std::vector<TrainedRows>> trained_;  // of weights of which parts may be frozen
  std::vector<bool> available_;                          // per forward value: saved, or recomputed by now
};

// A vector-Jacobian product: appends the ops that propagate the gradient of the first output of `op` to its inputs; to
// parameters first, so that the gradient can be freed early.
using VectorJacobianProduct = void(Backward& backward, const Op& op);

// nullptr if ops of this kind have no derivative. Defined in vjp.cpp.
VectorJacobianProduct* vjp_of(OpKind kind);

// Moves `saved` to Region::saved, one after the other, aligned to kSavedAlignment. Throws BadInput unless all are in
// scratch.
void place_saved(Graph& graph, const std::vector<ValueId>& saved);

}  // namespace l2l::compiler
