// Of an order of blocks, places: what the local search searches through.
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

  // Places all blocks; those earlier in `order` (each block once) choose first. Returns the footprint, or nothing when
  // a block would end above `highest` or `stop`, asked now and then, says so; then `offsets` (per block) mean nothing.
  virtual std::optional<Bytes> decode(std::span<const Index> order, Bytes highest, const std::function<bool()>& stop,
                                      std::vector<Bytes>& offsets) = 0;
};

// One after the other, each at the lowest place that those before leave; pinned ones before all. For all problems.
std::unique_ptr<Decoder> first_fit_decoder(const Blocks& blocks);

// From the bottom up: of the blocks whose lowest place is the lowest of all, the first of the order goes there. Not for
// groups and pinned blocks.
std::unique_ptr<Decoder> level_decoder(const Blocks& blocks);

}  // namespace l2l::compiler::memory
