// The parameters of a model: layers, the units of transfer, made of groups, the units of update. models/ builds it and
// eps/ stores it. Immutable once built.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/bytes.h"
#include "core/dtype.h"
#include "core/shape.h"

namespace l2l {

using LayerIndex = std::int32_t;  // position in the relay: embedding 0, blocks 1..N, head N + 1
using GroupIndex = std::int32_t;

enum class Initial : std::uint8_t { zeros, ones, normal };

// One tensor, row-major at `offset` (in elements) of its group.
struct ParameterSpec {
  std::string name;  // as in Hugging Face files: "h.0.attn.c_attn.weight"
  Shape shape;
  std::int64_t offset = 0;
  bool decay = false;  // weight decay applies
  Initial initial = Initial::zeros;
  float deviation = 0;  // of Initial::normal
};

// Parameters that are updated together, in one flat array.
struct GroupSpec {
  std::string name;
  std::uint32_t id = 0;  // stable: RNG keys and checkpoints use it
  std::vector<ParameterSpec> parameters;
  std::int64_t elements = 0;  // padding between parameters included
};

// Part of a layer's wire: a group, or the range of one that is sent with this layer (a chunk of a large table).
struct LayerPart {
  GroupIndex group = 0;
  std::int64_t offset = 0;    // in elements, within the layer's wire and gradients
  std::int64_t begin = 0;     // first element of the group
  std::int64_t elements = 0;  // 0: up to the group's end
};

struct LayerSpec {
  std::string name;
  std::uint32_t id = 0;  // stable; chunks of one layer share it, and so their random numbers
  std::vector<LayerPart> parts;
  std::int64_t elements = 0;
};

// A group with two uses (a tied table) appears as a part of two layers, or of as many as it has chunks.
struct ModelLayout {
  std::vector<GroupSpec> groups;
  std::vector<LayerSpec> layers;

  std::int64_t elements_of(const LayerPart& part) const;
  // Per group: elements at which parts begin or end inside it, ascending. Sums over its elements do not cross these.
  std::vector<std::vector<std::int64_t>> cuts() const;
  int uses(GroupIndex group) const;    // number of layers it is a part of
  std::int64_t parameters() const;     // elements without padding, each group once
  std::int64_t largest_layer() const;  // elements

  // Throws BadInput naming the group, layer or parameter where ranges overlap or leave their group, parameters are out
  // of order, ids or names are not unique, elements of a group are in no layer, or a group is twice in one layer.
  void validate() const;
};

}  // namespace l2l
