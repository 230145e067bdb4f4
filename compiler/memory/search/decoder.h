// Decoders: from an order of blocks to their offsets. The local search searches through orders.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "compiler/memory/blocks.h"

namespace l2l::compiler::memory {

// Thread-bound.
class Decoder {
 public:
  virtual ~Decoder() = default;

  // Places all blocks; `order` names each once. Returns the footprint, with `offsets` per block. Returns nothing when a
  // block would end above `highest`, or when stop(), called now and then, is true; `offsets` are then undefined.
  virtual std::optional<Bytes> decode(std::span<const Index> order, Bytes highest, const std::function<bool()>& stop,
                                      std::vector<Bytes>& offsets) = 0;
};

// First fit: block by block, each at the lowest free offset; pinned blocks before all others. For all problems.
std::unique_ptr<Decoder> first_fit_decoder(const Blocks& blocks);

// Builds from the bottom up: of the blocks whose lowest possible offset is the lowest of all, the first of the order is
// placed there. For problems without groups and pinned blocks.
std::unique_ptr<Decoder> level_decoder(const Blocks& blocks);

}  // namespace l2l::compiler::memory
