// The parameters of a model: layers, the units of transfer, made of groups, the units of update. models/ builds it and
// eps/ stores it. Immutable once built.
//
// A layer's wire has all its parameters. Its gradients have those of trained parameters alone, in the same order and
// without gaps where frozen ones lie; where all are trained, both are laid out alike.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/bytes.h"
#include "core/dtype.h"
#include "core/shape.h"

namespace l2l {

using LayerIndex = std::int32_t;  // position in the relay: embedding 0, blocks 1..N, head N + 1
using GroupIndex = std::int32_t;

constexpr std::uint32_t kFirstBlockId = 16;  // stable ids of groups and layers below it are those of other layers
constexpr std::uint32_t kFurtherUse = std::uint32_t{1} << 31;  // in the id of a layer's second and later uses in a list
constexpr std::int64_t kMaxParameterElements = std::int64_t{1} << 34;  // philox() counts blocks of 4 in 32 bits

enum class Initial : std::uint8_t { zeros, ones, normal, uniform };

// What one device has of a parameter that is split over several: along `axis` of `whole`, these ranges of it, one
// behind the other. Where there are more devices than shares, as many neighbours have the same one.
struct ParameterShare {
  struct Range {
    std::int64_t first = 0, count = 0;
    bool operator==(const Range&) const = default;
  };
  Shape whole;
  std::size_t axis = 0;
  std::vector<Range> ranges = {};
  int devices = 1;  // that have this share
  bool operator==(const ParameterShare&) const = default;
};

// One tensor, row-major at `offset` (in elements) of its group.
struct ParameterSpec {
  std::string name;  // as in Hugging Face files: "h.0.attn.c_attn.weight"
  Shape shape;
  std::int64_t offset = 0;
  bool decay = false;  // weight decay applies
  Initial initial = Initial::zeros;
  float deviation = 0;      // of Initial::normal; of Initial::uniform the bound on both sides of 0
  float rate = 1;           // factor of the learning rate
  float weight_decay = -1;  // its own, with or without `decay`; -1: the optimizer's, where `decay` is set
  bool trained = true;      // else frozen: it has no gradient, no moments, and no master but its wire
  // Not 0: a statistic. What stands for its gradient is the sum of what microbatches measured; a step moves it by this
  // share of the way to their mean. It has no part in norms of gradients, nor in clipping.
  float statistic = 0;
  std::optional<ParameterShare> share = {};  // of a model of one device's shares, whose shape is that of the share
  bool operator==(const ParameterSpec&) const = default;
};

// A block of rows that a device's share and the whole parameter have in common: where it begins in each, and how far
// apart its rows lie there, in elements.
struct SharedBlock {
  std::int64_t rows = 0, columns = 0;
  std::int64_t own = 0, own_stride = 0;
  std::int64_t whole = 0, whole_stride = 0;
  int devices = 0;  // neighbours that have it; 0: every device
  bool operator==(const SharedBlock&) const = default;
};
// All of them; of a parameter that every device has, the one block that it is.
std::vector<SharedBlock> shared_blocks(const ParameterSpec& parameter);

// Trained elements [begin, begin + elements) of a wire, and where their gradients begin.
struct GradientRange {
  std::int64_t begin = 0, elements = 0;
  std::int64_t gradient = 0;
  bool operator==(const GradientRange&) const = default;
};

// Parameters that are updated together, in one flat array.
struct GroupSpec {
  std::string name;
  std::uint32_t id = 0;  // stable: RNG keys and checkpoints use it
  std::vector<ParameterSpec> parameters;
  std::int64_t elements = 0;  // padding between parameters included

  // Of the gradients of its trained parameters, padding included; 0 where all are frozen.
  std::int64_t gradient_elements() const;
  bool has_statistics() const;  // that are not frozen
  // By parameter: where its gradient begins; -1 where it is frozen.
  std::vector<std::int64_t> gradient_offsets() const;
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
  // Set where layers are exchanged between steps: a group may then be a part of none. At first there are as many
  // layers, and as large ones, as there ever will be.
  struct Exchange {
    int further_uses = 0;                       // of all groups beyond their first, at most
    GroupIndex first_group = 0, end_group = 0;  // groups of layers that are exchanged: from `first_group` on
  };
  std::optional<Exchange> exchange = {};

  std::int64_t elements_of(const LayerPart& part) const;
  // The same of its gradients. A part that is a range of its group has as many as elements, or none.
  std::int64_t gradient_elements_of(const LayerPart& part) const;
  std::int64_t gradient_elements(LayerIndex layer) const;
  // Where trained elements of a layer made of `parts` lie, neighbours joined; nothing where the gradients are laid out
  // like the wire.
  std::optional<std::vector<GradientRange>> gradient_ranges(const std::vector<LayerPart>& parts) const;
  // Per group: elements at which parts begin or end inside it, ascending. Sums over its elements do not cross these.
  std::vector<std::vector<std::int64_t>> cuts() const;
  std::vector<int> uses() const;  // of each group: number of layers it is a part of
  int further_uses() const;       // of all trained groups beyond their first
  bool has_statistics() const;
  // Elements without padding and statistics, each group once.
  std::int64_t parameters() const;
  std::int64_t trained_parameters() const;
  std::int64_t largest_layer() const;     // elements
  std::int64_t largest_gradient() const;  // elements of a layer's gradients

  // Throws BadInput naming the group, layer or parameter where ranges overlap or leave their group, parameters are out
  // of order, ids or names are not unique, elements of a group are in no layer (but of all of it, where layers are
  // exchanged), a group is twice in one layer, or a layer has a range of a group of which some parameters are frozen
  // and others are not.
  void validate() const;
};

// What a layer of `shares`, a device's, has in common with that of `whole`: the blocks of all parameters, whose offsets
// are those within the layer. Of layers that are not cut into ranges of groups.
std::vector<SharedBlock> shared_blocks(const ModelLayout& shares, const ModelLayout& whole, LayerIndex layer);

// Elements of a layer that belong to no parameter, as [begin, end).
std::vector<std::pair<std::int64_t, std::int64_t>> padding_of(const ModelLayout& layout, LayerIndex layer);

}  // namespace l2l
