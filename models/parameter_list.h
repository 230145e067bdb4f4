// Collects the parameters of one layer: each gets its place in the wire, and its value in the layer's graph.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/model_layout.h"
#include "compiler/ir/graph.h"

namespace l2l::models {

// Thread-bound.
class ParameterList {
 public:
  // Every parameter, or what is joined to one operand, starts at a multiple of this many elements: 16 bytes on a 16-bit
  // wire.
  static constexpr std::int64_t kAlignment = 8;

  // Appends a parameter and returns its offset in elements.
  std::int64_t add(std::string name, Shape shape, Initial initial, float deviation, bool decay);
  // The same of several that lie one behind the other, without gaps; returns the offset of the first.
  std::int64_t add_joined(const std::vector<std::pair<std::string, Shape>>& parts, Initial initial, float deviation,
                          bool decay);

  // The group of these parameters, names prefixed.
  GroupSpec group(std::string name, std::uint32_t id, const std::string& prefix) const;
  std::int64_t elements() const { return elements_; }
  const ParameterSpec& operator[](std::size_t i) const { return parameters_[i]; }

 private:
  void append(std::string name, Shape shape, Initial initial, float deviation, bool decay);
  void align();

  std::vector<ParameterSpec> parameters_;
  std::int64_t elements_ = 0;
};

// Adds parameters to a layer's list and binds them in its graph, in one go.
class LayerWeights {
 public:
  // `wire_offset`: where the list's group starts in the layer's wire, in elements.
  LayerWeights(compiler::GraphBuilder& graph, ParameterList& list, DType compute, std::int64_t wire_offset = 0)
      : graph_(graph), list_(list), compute_(compute), wire_offset_(wire_offset) {}

  compiler::ValueId matrix(const std::string& name, std::int64_t rows, std::int64_t columns, float deviation);
  compiler::ValueId vector(const std::string& name, std::int64_t size, Initial initial);
  // Parameters [rows, columns], or [rows], that lie one behind the other in the wire: one operand, as high as all
  // together.
  struct Piece {
    std::string name;
    std::int64_t rows;
  };
  compiler::ValueId joined_matrix(const std::vector<Piece>& pieces, std::int64_t columns, float deviation);
  compiler::ValueId joined_vector(const std::vector<Piece>& pieces, Initial initial);
  // A parameter of another group (a tied table) at `offset` elements of this layer's wire.
  compiler::ValueId borrowed(const std::string& name, Shape shape, std::int64_t offset);

 private:
  compiler::GraphBuilder& graph_;
  ParameterList& list_;
  DType compute_;
  std::int64_t wire_offset_;
};

}  // namespace l2l::models
