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

// An op goes to the stream of an input that nothing follows there yet, else to the one with the fewest ops; events
// order it after the producers of its inputs. Tensors are the values in scratch.
compiler::memory::StreamProgram on_streams(const compiler::Graph& graph, std::size_t streams);

// `visits` blocks one after the other, relayed: stream 0 computes, stream 1 brings weights (a contiguous group for each
// visit) and what a visit reads that no visit before it wrote, stream 2 takes outputs and gradients (a group) away. Two
// visits' transfers are under way at once: a fetch waits for the end of the visit before the last, a visit for the
// stores of the one before the last. Everything lies in one arena, scratch included.
compiler::memory::StreamProgram relayed(const compiler::Graph& graph, std::size_t visits);

// Of BERT-Large, GPT-2 XL and Llama-7B in bf16, four sequences at once, forward and backward: a block spread over three
// streams, and all blocks relayed.
std::vector<NamedStreams> known_layer_streams();

}  // namespace l2l::tools
