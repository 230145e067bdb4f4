// The options among which a search chooses when the arena has a given size.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "compiler/remat/chain.h"
#include "compiler/remat/chain_frames.h"

namespace l2l::compiler::remat {

using LoadOf = std::function<Load(const LayerType&, const LayerOption&)>;

// Of the types that have layers: the options whose arena is no larger than `arena`, less those that another one is as
// good as in time, device and host bytes.
struct Selection {
  Bytes arena = 0;
  std::vector<std::size_t> types = {};                 // as the caller numbers them
  std::vector<std::vector<std::size_t>> options = {};  // per entry of `types`, as the caller numbers them; ascending
  Loads loads = {};                                    // in the same places
  std::vector<std::size_t> layers = {};                // per entry of `types`
};

// One for each arena of some option, ascending, where every type has an option left.
std::vector<Selection> select_by_arena(const std::vector<LayerType>& types, const LoadOf& load_of);

}  // namespace l2l::compiler::remat
