// Where blocks keep what their backward visits need: on the device or in host memory.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace l2l::runtime {

enum class StashPlace : std::uint8_t { device, host, none };  // none: blocks rebuild their inputs
std::string_view name_of(StashPlace place);

// Of one block.
struct BlockPlacement {
  StashPlace stash = StashPlace::host;  // of its inputs, and of what its forward visit saves
  bool weights_stay = false;            // on the device until its backward visit, so that they cross the link once
  bool operator==(const BlockPlacement&) const = default;
};

int count_stashes(const std::vector<BlockPlacement>& placements, StashPlace place);
int count_staying(const std::vector<BlockPlacement>& placements);

// counts[k] copies of each k, evenly interleaved: blocks that differ then load the link evenly.
std::vector<std::size_t> interleaved(const std::vector<std::size_t>& counts);

// Placements of `blocks` blocks: the stashes of `on_device` of them on the device, of the others on the host.
std::vector<BlockPlacement> split_stashes(int blocks, int on_device);
// The weights of `staying` of the blocks first to last stay; of all these where `staying` is more.
void keep_weights(std::vector<BlockPlacement>& placements, std::pair<int, int> blocks, int staying);

}  // namespace l2l::runtime
