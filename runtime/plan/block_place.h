// Where blocks keep, between their visits, what they need again.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace l2l::runtime {

enum class StashPlace : std::uint8_t { device, host, none };  // none: layers rebuild their inputs
std::string_view name_of(StashPlace place);

// Of one block.
struct BlockPlace {
  StashPlace stash = StashPlace::host;  // of its inputs, and of what its forward visit saves
  bool weights_stay = false;            // on the device until its backward visit, so that they cross the link once
  bool operator==(const BlockPlace&) const = default;
};

// Blocks whose stash is there; whose weights stay.
int count_stashes(const std::vector<BlockPlace>& places, StashPlace place);
int count_staying(const std::vector<BlockPlace>& places);

// `counts` things of kinds 0, 1, ... in one row, each kind spread over it as evenly as can be: what blocks that differ
// ask of the link then comes evenly, too.
std::vector<std::size_t> interleaved(const std::vector<std::size_t>& counts);

// Of `blocks` blocks: that many stashes on the device, the others on the host.
std::vector<BlockPlace> split_places(int blocks, int on_device);
// Weights of `staying` of the first `blocks` of them, or of all these, stay.
void keep_weights(std::vector<BlockPlace>& places, int blocks, int staying);

}  // namespace l2l::runtime
