// What a device has of each layer where layers are split over devices, and what all its group's devices bring to one
// contribution of gradients.
#pragma once

#include <condition_variable>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "core/failure.h"
#include "core/model_layout.h"
#include "eps/parameter_store.h"

namespace l2l::transfer {

// Of one device. Immutable.
struct LayerShares {
  int member = 0;                                     // number in its group
  Bytes wire = 0, gradient = 0;                       // size of an element of each
  std::vector<std::vector<SharedBlock>> blocks = {};  // by layer

  const std::vector<SharedBlock>& of(LayerIndex layer) const { return blocks[static_cast<std::size_t>(layer)]; }
  // Of the devices that have a block, the first brings its gradient.
  bool brings(const SharedBlock& block) const { return block.devices == 0 ? member == 0 : member % block.devices == 0; }
};

// The gradients that the devices of a group bring of a layer, each its blocks, into one buffer of the parameter server.
// Thread-safe.
class GroupGradients {
 public:
  // `contributor`: the group, as the parameter server counts devices. `layout`: of whole layers; `gradient`: bytes of
  // an element. `store` and `failure` must outlive this object.
  GroupGradients(eps::ParameterStore& store, int contributor, int members, const ModelLayout& layout, Bytes gradient,
                 Failure& failure);

  // The layer's memory, which the first device to ask takes from the store. Every device opens it once in a step, and
  // all in the same order. Waits until there is memory.
  std::byte* open(LayerIndex layer);
  // The device's blocks are there; the last to say so pushes the layer's gradients.
  void close(LayerIndex layer);

 private:
  struct Open {
    eps::GradientBuffer buffer;
    bool there = false;
    int closed = 0;
  };

  eps::ParameterStore& store_;
  const int contributor_, members_;
  const Bytes gradient_;
  Failure& failure_;
  std::vector<std::vector<std::pair<std::int64_t, std::int64_t>>> padding_;  // by layer; constant after construction
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<LayerIndex, Open> open_;  // guarded by mutex_
  Failure::Registration registration_;
};

}  // namespace l2l::transfer
