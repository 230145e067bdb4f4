// Collects the parameters of one layer: each gets its place in the wire and a value in the layer's graph.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "compiler/ir/graph.h"
#include "core/model_layout.h"

namespace l2l::models {

// Thread-bound.
class ParameterList {
 public:
  // In elements; 16 bytes on a 16-bit wire.
  static constexpr std::int64_t kAlignment = 8;

  // Appends parameters that lie one behind the other without gaps, from a multiple of kAlignment on. Returns the offset
  // of the first, in elements. Matrices are subject to weight decay, vectors are not. `deviation`: of Initial::normal.
  struct Parameter {
    std::string name;
    Shape shape;
    std::optional<ParameterShare> share = {};
  };
  std::int64_t add(const std::vector<Parameter>& parameters, Initial initial, float deviation = 0);

  // Appends a statistic (ParameterSpec::statistic).
  std::int64_t add_statistic(const std::string& name, std::int64_t elements, Initial initial, float share);

  // These parameters as a group, each name prefixed.
  GroupSpec group(std::string name, std::uint32_t id, const std::string& prefix = "") const;
  std::int64_t elements() const { return elements_; }
  bool operator==(const ParameterList&) const = default;

 private:
  std::vector<ParameterSpec> parameters_;
  std::int64_t elements_ = 0;
};

// How a parameter is split over devices: along one of its dimensions, of which each of `sections` equal parts is split
// alike.
struct Split {
  compiler::Shard shard = {};  // one of one: not at all
  std::size_t axis = 0;
  std::int64_t sections = 1;
};

// Declares parameters of a layer: adds them to its list and binds them in its graph. Sizes are those of whole
// parameters. Throws BadInput naming the parameter that cannot be split evenly.
class LayerWeights {
 public:
  // `wire_offset`: where the list's group begins in the layer's wire, in elements.
  LayerWeights(compiler::GraphBuilder& graph, ParameterList& list, DType compute, std::int64_t wire_offset = 0)
      : graph_(graph), list_(list), compute_(compute), wire_offset_(wire_offset) {}

  compiler::ValueId matrix(const std::string& name, std::int64_t rows, std::int64_t columns, float deviation,
                           const Split& split = {});
  compiler::ValueId matrix(const std::string& name, std::int64_t rows, std::int64_t columns, Initial initial,
                           float deviation);
  compiler::ValueId vector(const std::string& name, std::int64_t size, Initial initial, float deviation = 0,
                           const Split& split = {});
  // The same as a matrix of one row.
  compiler::ValueId row(const std::string& name, std::int64_t size, Initial initial);
  compiler::ValueId statistic(const std::string& name, std::int64_t size, Initial initial, float share);
  // A matrix of which the graph uses rows [first, rows).
  compiler::ValueId rows_from(const std::string& name, std::int64_t rows, std::int64_t first, std::int64_t columns,
                              float deviation);
  // Several parameters that are one operand, since they lie one behind the other in the wire.
  struct Piece {
    std::string name;
    std::int64_t rows;
    std::int64_t most_shares = 0;  // into which rows can be split, which more devices share; 0: into any number
  };
  compiler::ValueId joined_matrix(const std::vector<Piece>& pieces, std::int64_t columns, float deviation,
                                  const Split& split = {});
  compiler::ValueId joined_matrix(const std::vector<Piece>& pieces, std::int64_t columns, Initial initial,
                                  float deviation, const Split& split = {});
  compiler::ValueId joined_vector(const std::vector<Piece>& pieces, Initial initial, float deviation = 0,
                                  const Split& split = {});
  // A parameter of another group (such as a tied table) at `offset` elements of this layer's wire.
  compiler::ValueId borrowed(const std::string& name, Shape shape, std::int64_t offset);

 private:
  template <typename ShapeOf>
  compiler::ValueId joined(const std::vector<Piece>& pieces, ShapeOf shape_of, Initial initial, float deviation,
                           const Split& split);

  compiler::GraphBuilder& graph_;
  ParameterList& list_;
  DType compute_;
  std::int64_t wire_offset_;
};

}  // namespace l2l::models
