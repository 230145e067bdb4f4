// Layer programs as programs of several streams, for the planner's benchmark.
#pragma once

#include <string>
#include <vector>

#include "device/planner/streams.h"
#include "models/model.h"

namespace l2l::runtime {

struct NamedStreams {
  std::string name;
  device::planner::StreamProgram program;
};

// An op goes to the stream of an input that nothing follows there yet, else to the one with the fewest ops; events
// order it after the producers of its inputs. Tensors are the values in scratch.
device::planner::StreamProgram on_streams(const device::graph::Graph& graph, std::size_t streams);

// Forward and backward of a block of BERT-Large, GPT-2 XL and Llama-7B in bf16, four sequences at once.
std::vector<NamedStreams> known_layer_streams(std::size_t streams);

}  // namespace l2l::runtime
