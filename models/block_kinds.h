// The blocks of a model: which kinds there are, and of which kind each is.
#pragma once

#include <algorithm>
#include <vector>

#include "models/family.h"
#include "models/own_layers.h"

namespace l2l::models {

// A layer that is one part, from Region::input to Region::output. `rows`: those of a microbatch, or 1.
compiler::Graph layer_graph(const char* name, const TransformerShape& shape, const Family::Part& part,
                            std::int64_t rows, ParameterList& list);

// What blocks have in common that may share a type.
struct BlockKind {
  compiler::Graph forward;
  ParameterList parameters;
  LayerEnds inputs, outputs;
  bool reversible = false;  // from streams to streams
  bool operator==(const BlockKind&) const = default;
};

// The kinds of blocks, and the kind of each: those of the list at first, then those of the reserve.
struct Blocks {
  std::vector<BlockKind> kinds;
  std::vector<std::size_t> kind_of;
  std::vector<std::uint32_t> ids, owners;  // owner: the layer whose parameters a block uses, most often itself
  LayerEnds first, last;                   // what the list at first reads and returns
  std::size_t initial = 0;                 // blocks of that list
  std::size_t first_reversible = 0;        // index of the block from which on all of these are

  const BlockKind& kind(std::size_t block) const { return kinds[kind_of[block]]; }

  std::int64_t largest() const {
    std::int64_t elements = 0;
    for (const BlockKind& kind : kinds) elements = std::max(elements, kind.parameters.elements());
    return elements;
  }
};

// Throws BadInput naming the layer that is described wrongly, or does not fit where it stands.
Blocks make_blocks(const TransformerShape& shape, const Family& family);

}  // namespace l2l::models
