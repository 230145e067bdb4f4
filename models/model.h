// A model as the relay sees it: layer types (graphs that identical layers share), the sequence of layers, and the
// layout of their parameters. Immutable once built. Nothing here knows how a layer is executed.
#pragma once

#include <vector>

#include "core/dtype.h"
#include "core/model_layout.h"
#include "device/graph/graph.h"

namespace l2l::models {

// What identical layers share. A new layer type needs only its forward graph.
struct LayerType {
  device::graph::Graph forward;   // of one microbatch
  device::graph::Graph backward;  // derived; of the last type: forward straight into backward
};

struct Model {
  std::vector<LayerType> types;
  std::vector<int> type_of;  // per layer: index into types; layer 0 is the embedding, the last one the head
  ModelLayout layout;
  device::graph::Graph logits;  // head: [1, hidden] -> [1, vocabulary], for generation
  std::int64_t rows = 0;        // of an activation: sequences x tokens of one microbatch
  std::int64_t hidden = 0;
  std::int64_t vocabulary = 0;
  DType compute = DType::f32;

  int layers() const { return static_cast<int>(type_of.size()); }  // N + 2
  int blocks() const { return layers() - 2; }                      // N
  int head() const { return layers() - 1; }
  const LayerType& type(int layer) const {
    return types[static_cast<std::size_t>(type_of[static_cast<std::size_t>(layer)])];
  }
  Bytes activation_bytes() const { return static_cast<Bytes>(rows * hidden) * size_of(compute); }
  Bytes wire_bytes(int layer) const {
    return static_cast<Bytes>(layout.layers[static_cast<std::size_t>(layer)].elements) * size_of(compute);
  }
};

}  // namespace l2l::models
