// Layer programs as programs of several streams, for the planner's benchmark.
#pragma once

#include <string>
#include <vector>

#include "compiler/memory/streams.h"
#include "models/model.h"

namespace l2l::tools {

struct NamedStreams {
  std::string name;
  compiler::memory::StreamProgram program;
};

// Each op goes to the stream whose last op made one of its inputs, or else to the stream with the fewest ops; events
// order it after the producers of its inputs. Tensors are the values in scratch.
compiler::memory::StreamProgram on_streams(const compiler::Graph& graph, std::size_t streams);

// `visits` blocks one after the other, relayed. Stream 0 computes. Stream 1 fetches weights (a contiguous group for
// each visit) and inputs that no earlier visit wrote. Stream 2 stores outputs and gradients (a group). Transfers of two
// visits overlap: visit n waits for the stores of visit n - 2, and its fetch for the end of visit n - 2. One arena
// holds everything, scratch included.
compiler::memory::StreamProgram relayed(const compiler::Graph& graph, std::size_t visits);

// Of BERT-Large, GPT-2 XL and Llama-7B in bf16, four sequences at once, forward and backward: a block spread over three
// streams, and all blocks relayed.
std::vector<NamedStreams> known_layer_streams();

}  // namespace l2l::tools
